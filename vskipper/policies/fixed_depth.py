"""What StaticDepth and EarlyExit share: layers that are PROJECT_ONLY for every row, known when the policy is made."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policies.projector import CheckpointProjector, actions_taken, open_projector
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch, Timing


class FixedDepth:
    """PROJECT_ONLY at every layer of `projecting`, RUN at the other routed ones. name: the policy's, in errors."""

    def __init__(self, context: PolicyContext, name: str, projecting: Set[int], projector: str) -> None:
        self._projecting = projecting
        self._projector = open_projector(context, name, projector)
        if isinstance(self._projector, CheckpointProjector):
            self.swiglu = self._projector.swiglu
        self.capabilities = PolicyCapabilities(
            actions=actions_taken(bool(projecting)),
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
