"""How a routed layer's cohorts run: packed (exact sizes, the host learns the counts) or bounded (launches sized by
capacity and bounded by device counts, so that a captured graph can replay them). One Protocol for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from vskipper.cohort import CohortPlan
from vskipper.execution.projector import Projector
from vskipper.execution.protocols import Attention, LayerModules
from vskipper.policy import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundLayer:
    """A layer's number, its modules, and the attention of the pass."""

    number: int
    modules: LayerModules
    attention: Attention


class Branches(Protocol):
    """Each branch returns how many rows ran through it, an int or an int scalar on the device: evidence, not a plan."""

    def plan(self, actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        """Group the valid rows into cohorts (clause MAP-1)."""

    def attend(
        self, layer: BoundLayer, q: Tensor, route: Route, valid: Tensor, plan: CohortPlan
    ) -> tuple[Tensor, Tensor | int]:
        """o_proj(attention) [rows, hidden] of q [rows, heads, head dim]; exact zeros outside the attention span."""

    def mlp(
        self, modules: LayerModules, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        """out[row] = scale[row] * MLP(y[row]) for the MLP span, the rest of out [rows, hidden] untouched."""

    def project(
        self, projector: Projector, y: Tensor, plan: CohortPlan, scale: Tensor | None, out: Tensor
    ) -> Tensor | int:
        """out[row] = scale[row] * projector(y[row]) for the projector span, the rest of out untouched."""
