"""Policies that break their contract, each in one way."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policy import GateMode, PolicyCapabilities, PolicyContext, Route, RowBatch, Timing


class Fair:
    """RUN where the first value of x is positive: breaks nothing. The others change one thing about it."""

    capabilities = PolicyCapabilities()

    def __init__(self, context: PolicyContext, *, threshold: float = 0.0) -> None:
        self.context = context
        self.threshold = threshold

    def begin(self, batch: RowBatch) -> Any:
        return batch.positions

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        runs = x[:, 0] > self.threshold
        return Route(actions=torch.where(runs, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8))


class WrongShape(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions[:, None])


class WrongDtype(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions.to(torch.int64))


class WrongDevice(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions.to("meta"))


class SparseActions(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions.to_sparse())


class SparseProjection(Fair):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return torch.zeros_like(y).to_sparse()


class UnreadableRoute(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        class Odd(Route):
            @property
            def actions(self) -> Tensor:  # type: ignore[override]
                raise KeyError("actions")

        return object.__new__(Odd)


class RaisesWithoutWords(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        class Mute(Exception):
            def __str__(self) -> str:
                raise ZeroDivisionError

        raise Mute


class NoRoute(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return super().route(layer, x, state).actions  # type: ignore[return-value]


class UndeclaredAction(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions + 1)


class UndeclaredWeights(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions, weights=x[:, 0])


class MissingWeights(Fair):
    capabilities = PolicyCapabilities(gate_modes=frozenset({GateMode.WEIGHTED}))


class WeightsOfAnotherDtype(Fair):
    capabilities = PolicyCapabilities(gate_modes=frozenset({GateMode.WEIGHTED}))

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=super().route(layer, x, state).actions, weights=x[:, 0].double())


class Raises(Fair):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        table = [0]
        return Route(actions=table[layer])  # type: ignore[arg-type]


class WrongProjection(Fair):
    capabilities = PolicyCapabilities(needs_projector=True)

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return y[:, :-1]


class MissingProject(Fair):
    capabilities = PolicyCapabilities(needs_projector=True)


class MissingSecond(Fair):
    capabilities = PolicyCapabilities(timing=Timing.MID_LAYER)


class UndeclaredSecond(Fair):
    def route_mlp(self, layer: int, y: Tensor, state: None) -> Route:
        return self.route(layer, y, state)


class DecidesTwice(UndeclaredSecond):
    capabilities = PolicyCapabilities(timing=Timing.MID_LAYER)


class MissingRoute:
    capabilities = PolicyCapabilities()

    def __init__(self, context: PolicyContext) -> None: ...

    def begin(self, batch: RowBatch) -> None: ...


class MissingCapabilities:
    def __init__(self, context: PolicyContext) -> None: ...


class OtherParameters(Fair):
    def route(self, layer: int, x: Tensor) -> Route:  # type: ignore[override]
        return super().route(layer, x, None)


class NoContext:
    capabilities = PolicyCapabilities()


class RaisesWhenMade(Fair):
    def __init__(self, context: PolicyContext) -> None:
        raise KeyError("no such tensor")


class LeavesWhenMade(Fair):
    def __init__(self, context: PolicyContext) -> None:
        sys.exit("no licence")


class RaisesWhenAsked(Fair):
    @property
    def capabilities(self) -> PolicyCapabilities:  # type: ignore[override]
        declared: dict[str, PolicyCapabilities] = {}
        return declared["promises"]


class LacksWhenAsked(Fair):
    @property
    def capabilities(self) -> PolicyCapabilities:  # type: ignore[override]
        return ().promises  # type: ignore[attr-defined,no-any-return]


class NeedsRouter(Fair):
    capabilities = PolicyCapabilities(needs_router=True)


class Required(Fair):
    def __init__(self, context: PolicyContext, *, path: str) -> None:
        super().__init__(context)


NOT_A_CLASS = 3
