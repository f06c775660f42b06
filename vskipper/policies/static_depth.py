"""StaticDepth: the last part of the routed layers is PROJECT_ONLY for every row."""

from __future__ import annotations

import math
from typing import Literal

from vskipper.policies.fixed_depth import FixedDepth
from vskipper.policies.settings import fraction
from vskipper.policy import PolicyContext

NAME = "static-depth"


class StaticDepth(FixedDepth):
    """PROJECT_ONLY in the last ceil(ratio * routed layers): at ratio 0 every layer runs, at 1 every row projects."""

    def __init__(
        self, context: PolicyContext, *, ratio: float = 0.5, projector: Literal["zero", "checkpoint"] = "zero"
    ) -> None:
        layers = context.routed_layers
        depth = math.ceil(fraction(NAME, "ratio", ratio) * len(layers))
        super().__init__(context, NAME, frozenset(layers[len(layers) - depth :]), projector)
