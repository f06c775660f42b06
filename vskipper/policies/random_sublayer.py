"""RandomSublayer: each row draws one of the four actions anew at every routed layer; exercises the sublayer actions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policies.hashing import LAYER_STEP, keyed, mix, shift_right, signed
from vskipper.policies.projector import CheckpointProjector, open_projector
from vskipper.policies.settings import seed as checked_seed
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch, Timing

NAME = "random-sublayer"


class RandomSublayer:
    """The action is the top two bits of the mixed request key, position, layer and seed: uniform over the four."""

    def __init__(
        self, context: PolicyContext, *, seed: int = 0, projector: Literal["zero", "checkpoint"] = "zero"
    ) -> None:
        self._seed = checked_seed(NAME, seed)
        self._projector = open_projector(context, NAME, projector)
        if isinstance(self._projector, CheckpointProjector):
            self.swiglu = self._projector.swiglu
        self.capabilities = PolicyCapabilities(
            actions=frozenset(Action),
            timing=Timing.TOKEN,
            needs_projector=isinstance(self._projector, CheckpointProjector),
            tolerates_dense_prefix=True,
        )

    def begin(self, batch: RowBatch) -> Tensor:
        """int64 [rows], what the layers mix their numbers into."""
        return keyed(batch.request_keys, batch.positions, self._seed)

    def route(self, layer: int, x: Tensor, state: Tensor) -> Route:
        bits = shift_right(mix(state + signed(layer * LAYER_STEP)), 62)
        return Route(actions=bits.to(torch.uint8))

    def project(self, layer: int, y: Tensor, state: Tensor) -> Tensor:
        return self._projector.project(layer, y, state)
