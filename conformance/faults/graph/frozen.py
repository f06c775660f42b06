"""Faults of a capture: something that a replay should read from the device has become a constant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import Frozen, graph_fault
from vskipper.cohort import CohortPlan, Span
from vskipper.policy import Route, SwiGLU


def _counts_frozen(original: Any) -> Any:
    frozen = Frozen()

    def broken(branches: Any, actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(branches, actions, valid, out)
        out.offsets.copy_(frozen(actions.shape[0], out.offsets))

    return broken


def _routes_frozen(original: Any) -> Any:
    frozen = Frozen()

    def broken(route: Route, rows: Tensor | None) -> Route:
        found = original(route, rows)
        return Route(actions=frozen(found.actions.shape[0], found.actions), weights=found.weights)

    return broken


def _decision_frozen(original: Any) -> Any:
    frozen = Frozen()

    def broken(policy: Any, layer: int, x: Tensor, state: Any) -> Route:
        found = original(policy, layer, x, state)
        return Route(actions=frozen((layer, x.shape[0]), found.actions), weights=found.weights)

    return broken


def _grid_frozen(original: Any) -> Any:
    frozen = Frozen()

    def broken(y: Tensor, weights: SwiGLU, span: Span, *more: Any) -> None:
        programs = frozen((y.shape[0], weights.w_in.data_ptr()), span.stop - span.start)
        original(y, weights, replace(span, stop=torch.minimum(span.stop, span.start + programs)), *more)

    return broken


FAULTS = (
    graph_fault(
        id="graph-counts-frozen",
        title="cohorts keep the bounds that they had when the graph was captured",
        source="a count read on the host at capture",
        seam="vskipper.execution.bounded:BoundedBranches.plan",
        patch=_counts_frozen,
        killer="graph.replay",
        reason="replay_differs",
    ),
    graph_fault(
        id="graph-routes-frozen",
        title="routes keep what they were when the graph was captured",
        source="a tape copied at capture",
        seam="vskipper.execution.routed_layer:force_run",
        patch=_routes_frozen,
        killer="graph.outputs",
        reason="routes_differ",
    ),
    graph_fault(
        id="graph-decision-frozen",
        title="a policy decides on the host, once, at capture",
        source="a branch on a tensor's value in route()",
        seam="vskipper.policies.flexidepth:FlexiDepth.route",
        patch=_decision_frozen,
        killer="graph.policy",
        reason="replay_decides_otherwise",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-grid-frozen",
        title="no more rows of a cohort are worked on than there were when the graph was captured",
        source="sglang#28371",
        seam="vskipper.execution.bounded:swiglu",
        patch=_grid_frozen,
        killer="graph.replay",
        reason="replay_differs",
    ),
)
