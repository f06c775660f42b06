"""Everything the routed layers of one forward pass share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vskipper.cohort import CohortPlan
from vskipper.execution.protocols import Attention
from vskipper.execution.work import WorkCounters
from vskipper.tape import RouteTape


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPass:
    """valid: bool [rows], False for padding. positions: int64 [rows]. force_run: bool [rows] or None, rows of dense
    requests. plans: one cohort plan a routed layer. state: what the policy's begin() returned."""

    valid: Tensor
    positions: Tensor
    force_run: Tensor | None
    tape: RouteTape
    plans: tuple[CohortPlan, ...]
    work: WorkCounters
    attention: Attention
    state: Any
