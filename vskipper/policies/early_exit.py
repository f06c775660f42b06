"""EarlyExit: from one layer on every row is PROJECT_ONLY; its K and V are still written at every layer."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policies.projector import CheckpointProjector, actions_taken, open_projector
from vskipper.policies.settings import whole
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch, Timing

NAME = "early-exit"


class EarlyExit:
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
        if exit_layer is None:
            layers = context.routed_layers
            exit_layer = layers[len(layers) // 2] if layers else context.layers
        self._exit_layer = whole(NAME, "exit_layer", exit_layer, 0, context.layers)
        self._projector = open_projector(context, NAME, projector)
        if isinstance(self._projector, CheckpointProjector):
            self.swiglu = self._projector.swiglu
        self.capabilities = PolicyCapabilities(
            actions=actions_taken(any(layer >= self._exit_layer for layer in context.routed_layers)),
            timing=Timing.LOAD,
            needs_projector=isinstance(self._projector, CheckpointProjector),
            prefix_determined=True,
            tolerates_dense_prefix=True,
        )

    def begin(self, batch: RowBatch) -> None:
        return None

    def route(self, layer: int, x: Tensor, state: None) -> Route:
        action = Action.PROJECT_ONLY if layer >= self._exit_layer else Action.RUN
        return Route(actions=torch.full((x.shape[0],), int(action), dtype=torch.uint8, device=x.device))

    def project(self, layer: int, y: Tensor, state: None) -> Tensor:
        return self._projector.project(layer, y, state)
