"""random-skip that breaks down in the middle of a pass: at one position of the requests that are named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vskipper.policies.random_skip import RandomSkip
from vskipper.policy import PolicyContext, Route, RowBatch
from vskipper.request_key import request_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """inner: random-skip's own state. way: in which a row of this pass cannot be routed, if one cannot."""

    inner: Any
    way: str | None


class Mute(Exception):
    """Has no message, not even an empty one."""

    def __str__(self) -> str:
        raise ArithmeticError


class Fragile:
    """broken: by request id `raises`, `mute` or `sparse`. position: of their row that cannot be routed. settings:
    random-skip's."""

    def __init__(self, context: PolicyContext, *, broken: dict[str, str], position: int, **settings: Any) -> None:
        self._inner = RandomSkip(context, **settings)
        self._ways = {request_key(name): way for name, way in broken.items()}
        self._position = position
        # by then the row has written its K and V in layers before
        self._layer = context.routed_layers[-1]
        self.capabilities = self._inner.capabilities

    def begin(self, batch: RowBatch) -> Pass:
        keys = batch.request_keys[batch.positions == self._position].tolist()
        way = next((self._ways[key] for key in keys if key in self._ways), None)
        return Pass(inner=self._inner.begin(batch), way=way)

    def route(self, layer: int, x: Tensor, state: Pass) -> Route:
        route = self._inner.route(layer, x, state.inner)
        if state.way is None or layer != self._layer:
            return route
        if state.way == "raises":
            raise LookupError("no route for this row")
        if state.way == "mute":
            raise Mute
        return Route(actions=route.actions.to_sparse(), weights=route.weights)

    def project(self, layer: int, y: Tensor, state: Pass) -> Tensor:
        return self._inner.project(layer, y, state.inner)
