"""The cohort plan of one routed layer: the valid rows grouped by action, on the device, without a host copy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vskipper.action import COHORT_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A contiguous range of a cohort plan whose ends live on the device.

    rows: int32 [capacity], row numbers. start, stop: int32 scalars on the device; the span is rows[start:stop].
    """

    rows: Tensor
    start: Tensor
    stop: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortPlan:
    """Row numbers of every valid row, cohort by cohort in COHORT_ORDER, ascending within a cohort (clause MAP-1).

    rows: int32 [capacity]; entries from offsets[4] on are never written.
    offsets: int32 [5]; cohort i of COHORT_ORDER is rows[offsets[i]:offsets[i + 1]].
    """

    rows: Tensor
    offsets: Tensor

    @property
    def attention(self) -> Span:
        """Rows whose attention runs: SKIP_MLP and RUN."""
        return self._span(0, 2)

    @property
    def mlp(self) -> Span:
        """Rows whose MLP runs: RUN and SKIP_ATTN."""
        return self._span(1, 3)

    @property
    def projector(self) -> Span:
        """Rows that run the projector: PROJECT_ONLY."""
        return self._span(3, 4)

    def _span(self, first: int, last: int) -> Span:
        return Span(rows=self.rows, start=self.offsets[first], stop=self.offsets[last])


def empty_plan(capacity: int, device: torch.device | str) -> CohortPlan:
    """A plan's buffers for up to `capacity` rows; contents undefined until planned."""
    return CohortPlan(
        rows=torch.empty(capacity, dtype=torch.int32, device=device),
        offsets=torch.empty(len(COHORT_ORDER) + 1, dtype=torch.int32, device=device),
    )


def plan_cohorts(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
    """Fill `out` from actions uint8 [rows] and valid bool [rows]; torch operators only, nothing leaves the device."""
    order = torch.full_like(actions, len(COHORT_ORDER), dtype=torch.int64)
    for index, action in enumerate(COHORT_ORDER):
        order = torch.where(valid & (actions == int(action)), index, order)
    cohorts = torch.arange(len(COHORT_ORDER), device=actions.device)
    out.offsets[0] = 0
    # bincount would copy its size to the host
    out.offsets[1:] = (order == cohorts[:, None]).sum(1).cumsum(0)
    rows = torch.argsort(order, stable=True).to(torch.int32)
    places = torch.arange(rows.numel(), device=rows.device)
    out.rows[: rows.numel()] = torch.where(places < out.offsets[-1], rows, out.rows[: rows.numel()])
