"""Faults of the gate: its decisions, and what its weights do to the branches; clauses SEM-3 and SEM-4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from conformance.faults.core.policies import run_where
from conformance.faults.fault import WRITES_AND_MAPS
from vskipper.action import Action
from vskipper.policy import Route

SCALE = "vskipper.execution.routed_layer:branch_scale"
ROUTE = "vskipper.policies.flexidepth:FlexiDepth.route"


def _project_scaled_by_w(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        return None if route.weights is None else torch.where(_sublayer(route), 1.0, route.weights)

    return broken


def _never_scaled(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        return None

    return broken


def _sublayers_scaled(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        scale = original(route)
        return scale if scale is None else torch.where(_sublayer(route), 0.5 * scale, scale)

    return broken


def _sublayer(route: Route) -> Tensor:
    return (route.actions == int(Action.SKIP_ATTN)) | (route.actions == int(Action.SKIP_MLP))


def _weight_below_one(original: Any) -> Any:
    """w = 1 is taken for w just below it."""

    def broken(route: Route) -> Tensor | None:
        scale = original(route)
        return scale if scale is None else torch.where(scale == 1.0, scale - 2**-20, scale)

    return broken


def _threshold_not_strict(original: Any) -> Any:
    """RUN iff w >= 0.5."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        w = self._routers[layer].weight(x)
        return replace(route, actions=run_where(w >= 0.5))

    return broken


def _norm_before_router(original: Any) -> Any:
    """One norm too many stands before the router."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        centred = x - x.mean(-1, keepdim=True)
        route: Route = original(self, layer, centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True)), state)
        return route

    return broken


def _inverted_route(original: Any) -> Any:
    """The branch of RUN is taken for PROJECT_ONLY's: which class is which was misread."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        flipped = int(Action.RUN) - route.actions
        return replace(route, actions=flipped.to(torch.uint8))

    return broken


FAULTS = (
    executor_fault(
        id="project-scaled-by-w",
        title="the projector is scaled by w in place of 1 - w",
        source="FlexiDepth's equations misread",
        seam=SCALE,
        patch=_project_scaled_by_w,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="gate-mode-ignored",
        title="a weighted gate runs as a hard one",
        source="arXiv:2609.37062, void quality gates",
        seam=SCALE,
        patch=_never_scaled,
        killer="gate.mode",
        reason="gate_mode_ignored",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="sublayers-scaled",
        title="SKIP_ATTN and SKIP_MLP are scaled",
        source="FlexiDepth's scaling carried over to sublayer policies",
        seam=SCALE,
        patch=_sublayers_scaled,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="run-weight-below-one",
        title="w = 1 is a little less than 1",
        source="vllm#55238",
        seam=SCALE,
        patch=_weight_below_one,
        killer="sem.all_run_is_dense",
        reason="all_run_differs",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="threshold-not-strict",
        title="RUN where w is 0.5 exactly",
        source="FlexiDepth's strict threshold",
        seam=ROUTE,
        patch=_threshold_not_strict,
        killer="gate.threshold",
        reason="threshold_not_strict",
        quiet=(*WRITES_AND_MAPS, "gate.routes"),
    ),
    executor_fault(
        id="norm-before-router",
        title="the router sees its input normalised once more",
        source="FlexiDepth's router reads the layer's own input norm",
        seam=ROUTE,
        patch=_norm_before_router,
        killer="gate.routes",
        reason="wrong_weight",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="routes-inverted",
        title="the two sides of the gate are exchanged",
        source="SkipGPT, where class 1 means skip",
        seam=ROUTE,
        patch=_inverted_route,
        killer="model.routes",
        reason="route_differs",
        quiet=WRITES_AND_MAPS,
    ),
)
