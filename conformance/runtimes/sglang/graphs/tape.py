"""Routes that a captured graph reads from tensors of the suite's own, which stay where they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from properties.graph.engine import captured_count
from properties.stand_in import StandIn
from reference.plan import TapePlan
from vskipper.action import Action
from vskipper.policy import Route, RowBatch, SkipPolicy

# of a padding row, where its routes are to be told from a valid one's
ODD = int(Action.PROJECT_ONLY)


class StaticTape(StandIn):
    """A policy for passes of up to `rows` rows that plays what its tensors hold; the projector is that of `inner`.
    weighted: whether its routes have weights."""

    def __init__(self, inner: SkipPolicy, layers: tuple[int, ...], rows: int, like: Tensor, *, weighted: bool) -> None:
        super().__init__(inner)
        self._index = {layer: i for i, layer in enumerate(layers)}
        self._actions = torch.full((len(layers), rows), int(Action.RUN), dtype=torch.uint8, device=like.device)
        self._weights = torch.ones_like(self._actions, dtype=like.dtype) if weighted else None

    def play_captured(self, size: int) -> None:
        """What a graph of `size` rows is captured with."""
        self._actions.fill_(int(Action.RUN))
        self._actions[:, : captured_count(size)] = int(Action.PROJECT_ONLY)

    def play(self, tape: TapePlan, *, odd: bool) -> None:
        """The routes of the next replay; rows beyond the tape get RUN and w = 1, or, where odd, something else."""
        layers, rows = len(tape.actions), len(tape.actions[0])
        self._actions.fill_(ODD if odd else int(Action.RUN))
        self._actions[:, :rows] = torch.tensor(tape.actions, dtype=torch.uint8).reshape(layers, rows)
        if (self._weights is None) != (tape.eighths is None):
            raise ValueError(
                f"tape weights: got {tape.eighths}, expected {'none' if self._weights is None else 'some'}"
            )
        if self._weights is not None:
            self._weights.fill_(float("nan") if odd else 1.0)
            eighths = torch.tensor(tape.eighths, dtype=torch.float64).reshape(layers, rows)
            self._weights[:, :rows] = (eighths / 8).to(self._weights.dtype)

    def begin(self, batch: RowBatch) -> Any:
        return batch.valid.shape[0], super().begin(batch)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        rows, index = state[0], self._index[layer]
        weights = None if self._weights is None else self._weights[index, :rows]
        return Route(actions=self._actions[index, :rows], weights=weights)

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return super().project(layer, y, state[1])
