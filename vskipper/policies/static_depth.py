"""StaticDepth: the last part of the routed layers is PROJECT_ONLY for every row."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policies.projector import CheckpointProjector, actions_taken, open_projector
from vskipper.policies.settings import fraction
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch, Timing

NAME = "static-depth"


class StaticDepth:
    """PROJECT_ONLY in the last ceil(ratio * routed layers): at ratio 0 every layer runs, at 1 every row projects."""

    def __init__(
        self, context: PolicyContext, *, ratio: float = 0.5, projector: Literal["zero", "checkpoint"] = "zero"
    ) -> None:
        depth = math.ceil(fraction(NAME, "ratio", ratio) * len(context.routed_layers))
        self._projecting = frozenset(context.routed_layers[len(context.routed_layers) - depth :])
        self._projector = open_projector(context, NAME, projector)
        if isinstance(self._projector, CheckpointProjector):
            self.swiglu = self._projector.swiglu
        self.capabilities = PolicyCapabilities(
            actions=actions_taken(bool(self._projecting)),
            timing=Timing.LOAD,
            needs_projector=isinstance(self._projector, CheckpointProjector),
            prefix_determined=True,
            tolerates_dense_prefix=True,
        )

    def begin(self, batch: RowBatch) -> None:
        return None

    def route(self, layer: int, x: Tensor, state: None) -> Route:
        action = Action.PROJECT_ONLY if layer in self._projecting else Action.RUN
        return Route(actions=torch.full((x.shape[0],), int(action), dtype=torch.uint8, device=x.device))

    def project(self, layer: int, y: Tensor, state: None) -> Tensor:
        return self._projector.project(layer, y, state)
