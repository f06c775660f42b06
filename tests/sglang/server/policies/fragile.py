"""random-skip that breaks down in the middle of a pass: at one position of the requests that are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vskipper.policies.random_skip import RandomSkip
from vskipper.policy import PolicyContext, Route, RowBatch
from vskipper.request_key import request_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """inner: random-skip's own state. breaks: whether a row of this pass cannot be routed."""

    inner: Any
    breaks: bool


class Fragile:
    """broken: request ids. position: of their row that cannot be routed. settings: random-skip's."""

    def __init__(self, context: PolicyContext, *, broken: list[str], position: int, **settings: Any) -> None:
        self._inner = RandomSkip(context, **settings)
        self._keys = torch.tensor([request_key(name) for name in broken])
        self._position = position
        # by then the row has written its K and V in layers before
        self._layer = context.routed_layers[-1]
        self.capabilities = self._inner.capabilities

    def begin(self, batch: RowBatch) -> Pass:
        rows = torch.isin(batch.request_keys, self._keys) & (batch.positions == self._position)
        return Pass(inner=self._inner.begin(batch), breaks=bool(rows.any()))

    def route(self, layer: int, x: Tensor, state: Pass) -> Route:
        if state.breaks and layer == self._layer:
            raise LookupError("no route for this row")
        return self._inner.route(layer, x, state.inner)

    def project(self, layer: int, y: Tensor, state: Pass) -> Tensor:
        return self._inner.project(layer, y, state.inner)
