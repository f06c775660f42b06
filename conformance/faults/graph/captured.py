"""Faults of a captured pass: what it takes for its own is another's, padding's, or of another pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import Remembered, graph_fault
from vskipper.policy import Route
from vskipper.sglang.passes import PassPlan

PLAN = "vskipper.sglang.graphs.buffers:CapturedPass.plan"


def _routes_of_last(original: Any) -> Any:
    last = Remembered()

    def broken(route: Route, rows: Tensor | None) -> Route:
        found = original(route, rows)
        kept = last(found.actions)
        older = kept.clone()
        kept.copy_(found.actions)
        return Route(actions=older, weights=found.weights)

    return broken


def _rows_changed(change: Callable[[Any], Any]) -> Any:
    def patch(original: Any) -> Any:
        def broken(source: Any, *arguments: Any) -> PassPlan:
            plan: PassPlan = original(source, *arguments)
            return replace(plan, rows=change(plan.rows))

        return broken

    return patch


def _tail_stale(original: Any) -> Any:
    valid_once = Remembered()

    def broken(source: Any, *arguments: Any) -> PassPlan:
        plan: PassPlan = original(source, *arguments)
        seen = valid_once(plan.rows.valid).logical_or_(plan.rows.valid)
        return replace(plan, rows=replace(plan.rows, valid=seen.clone()))

    return broken


FAULTS = (
    graph_fault(
        id="graph-routes-of-last-pass",
        title="a layer runs by what was decided before it, be it in another pass",
        source="a buffer refreshed after it was read",
        seam="vskipper.execution.routed_layer:force_run",
        patch=_routes_of_last,
        killer="graph.alternate",
        reason="order_changes_result",
    ),
    graph_fault(
        id="graph-positions-forgotten",
        title="a captured pass rotates every row as position 0",
        source="positions not among the static buffers",
        seam=PLAN,
        patch=_rows_changed(lambda rows: replace(rows, positions=torch.zeros_like(rows.positions))),
        killer="graph.outputs",
        reason="wrong_hidden",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-padding-valid",
        title="padding rows of a captured size are taken for rows of requests",
        source="sglang padding rows counted",
        seam=PLAN,
        patch=_rows_changed(lambda rows: replace(rows, valid=torch.ones_like(rows.valid))),
        killer="graph.padding",
        reason="padding_counted",
        quiet=("graph.still",),
    ),
    graph_fault(
        id="graph-tail-stale",
        title="what an earlier, larger batch left behind is taken for rows of this one",
        source="sglang#24743",
        seam=PLAN,
        patch=_tail_stale,
        killer="graph.padding",
        reason="padding_counted",
        quiet=("graph.still",),
    ),
)
