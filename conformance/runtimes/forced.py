"""A policy whose routes are forced by a tape; the projector stays that of the policy it stands in for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from properties.stand_in import StandIn
from reference.plan import TapePlan
from vskipper.action import Action
from vskipper.policy import Route, SkipPolicy


class ForcedPolicy(StandIn):
    """Plays `tape` for a pass of `rows` rows, valid rows first; rows beyond the tape get RUN and w = 1."""

    def __init__(self, inner: SkipPolicy, layers: tuple[int, ...], tape: TapePlan, rows: int, like: Tensor) -> None:
        super().__init__(inner)
        self._index = {layer: i for i, layer in enumerate(layers)}
        valid = len(tape.actions[0]) if tape.actions else 0
        self._actions = torch.full((len(layers), rows), int(Action.RUN), dtype=torch.uint8, device=like.device)
        self._actions[:, :valid] = torch.tensor(tape.actions, dtype=torch.uint8).reshape(len(layers), valid)
        self._weights: Tensor | None = None
        if tape.eighths is not None:
            self._weights = torch.ones(len(layers), rows, dtype=like.dtype, device=like.device)
            eighths = torch.tensor(tape.eighths, dtype=torch.float64).reshape(len(layers), valid)
            self._weights[:, :valid] = (eighths / 8).to(like.dtype)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        index = self._index[layer]
        return Route(actions=self._actions[index], weights=None if self._weights is None else self._weights[index])
