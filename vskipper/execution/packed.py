"""Cohorts at their exact size: one host copy of the ends a span, then dense operators on gathered rows."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.cohort import CohortPlan, Span, plan_cohorts
from vskipper.execution.branches import BoundLayer
from vskipper.execution.projector import Projector
from vskipper.execution.protocols import LayerModules
from vskipper.policy import Route


def span_rows(span: Span) -> Tensor:
    """The row numbers of a span, int64 [n]; copies its ends to the host, both at once."""
    start, stop = torch.stack((span.start, span.stop)).tolist()
    return span.rows[start:stop].long()


def scatter(values: Tensor, rows: Tensor, scale: Tensor | None, out: Tensor) -> None:
    """out[rows] = scale[rows] * values; values [n, hidden], scale [rows] or None."""
    out[rows] = values if scale is None else values * scale[rows, None]


class PackedBranches:
    """For eager passes and prefill; implements Branches with the engine's own matrix products."""

    def plan(self, actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        plan_cohorts(actions, valid, out)

    def attend(
        self, layer: BoundLayer, q: Tensor, route: Route, valid: Tensor, plan: CohortPlan
    ) -> tuple[Tensor, Tensor | int]:
        rows = span_rows(plan.attention)
        out = torch.zeros(q.shape[0], layer.modules.hidden_size, dtype=q.dtype, device=q.device)
        if rows.numel():
            attended = layer.attention.attend_rows(layer.number, q, rows)
            scatter(layer.modules.o_proj(attended), rows, None, out)
        return out, rows.numel()

    def mlp(
        self, modules: LayerModules, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        rows = span_rows(plan.mlp)
        if rows.numel():
            scatter(modules.mlp(y[rows]), rows, scale, out)
        return rows.numel()

    def project(
        self, projector: Projector, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        rows = span_rows(plan.projector)
        if rows.numel() and projector.run is not None:
            scatter(projector.run(y[rows]), rows, scale, out)
        return rows.numel()
