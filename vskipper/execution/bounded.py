"""Cohorts bounded by device counts: capacity-sized launches that read no count on the host, fit for captured graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.cohort import CohortPlan, Span
from vskipper.execution.branches import BoundLayer
from vskipper.execution.projector import Projector
from vskipper.execution.protocols import LayerModules
from vskipper.kernels import cohort, scatter
from vskipper.kernels.swiglu import SwiGLUScratch, swiglu
from vskipper.policy import Route


def gather_span(values: Tensor, span: Span) -> Tensor:
    """values[rows of the span], padded to capacity with arbitrary rows: [capacity, hidden], no host copy."""
    last = span.rows.numel() - 1
    index = (span.start + torch.arange(span.rows.numel(), device=values.device)).clamp(max=last)
    return values[span.rows[index].long().clamp(0, values.shape[0] - 1)]


class BoundedBranches:
    """Implements Branches with vSkipper's kernels. scratch: shared by all layers, for passes up to its capacity."""

    def __init__(self, scratch: SwiGLUScratch) -> None:
        self.scratch = scratch

    def plan(self, actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        cohort.plan_cohorts(actions, valid, out)

    def attend(
        self, layer: BoundLayer, q: Tensor, route: Route, valid: Tensor, plan: CohortPlan
    ) -> tuple[Tensor, Tensor | int]:
        attended = layer.attention.attend_masked(layer.number, q, route.actions, valid)
        return layer.modules.o_proj(attended), plan.attention.stop - plan.attention.start

    def mlp(
        self, modules: LayerModules, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        swiglu(y, modules.mlp_weights, plan.mlp, scale, out, self.scratch)
        return plan.mlp.stop - plan.mlp.start

    def project(
        self, projector: Projector, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        if projector.swiglu is not None:
            swiglu(y, projector.swiglu, plan.projector, scale, out, self.scratch)
        elif projector.run is not None:
            scatter.scatter_rows(projector.run(gather_span(y, plan.projector)), plan.projector, out, scale)
        return plan.projector.stop - plan.projector.start
