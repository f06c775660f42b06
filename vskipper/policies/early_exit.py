"""EarlyExit: from one layer on every row is PROJECT_ONLY; its K and V are still written at every layer."""

from __future__ import annotations

from typing import Literal

from vskipper.policies.fixed_depth import FixedDepth
from vskipper.policies.settings import whole
from vskipper.policy import PolicyContext

NAME = "early-exit"


class EarlyExit(FixedDepth):
    """PROJECT_ONLY at every routed layer numbered exit_layer or above; by default the middle one of the routed layers.

    Layers that are not routed run, wherever they lie.
    """

    def __init__(
        self,
        context: PolicyContext,
        *,
        exit_layer: int | None = None,
        projector: Literal["zero", "checkpoint"] = "zero",
    ) -> None:
        layers = context.routed_layers
        if exit_layer is None:
            exit_layer = layers[len(layers) // 2] if layers else context.layers
        first = whole(NAME, "exit_layer", exit_layer, 0, context.layers)
        super().__init__(context, NAME, frozenset(layer for layer in layers if layer >= first), projector)
