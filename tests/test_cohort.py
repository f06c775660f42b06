"""Cohort plans by torch operators, against plans written by hand."""

from __future__ import annotations

import pytest
import torch

from vskipper.cohort import CohortPlan, Span, empty_plan, plan_cohorts

UNWRITTEN = -7


def planned(actions: list[int], valid: list[bool], capacity: int) -> CohortPlan:
    plan = empty_plan(capacity, "cpu")
    plan.rows.fill_(UNWRITTEN)
    plan_cohorts(torch.tensor(actions, dtype=torch.uint8), torch.tensor(valid, dtype=torch.bool), plan)
    return plan


def rows(span: Span) -> list[int]:
    return span.rows[int(span.start) : int(span.stop)].tolist()


def test_rows_lie_cohort_by_cohort_and_ascending() -> None:
    plan = planned([3, 0, 1, 2, 3, 0, 1], [True] * 7, 7)
    assert plan.rows.tolist() == [2, 6, 0, 4, 3, 1, 5]
    assert plan.offsets.tolist() == [0, 2, 4, 5, 7]
    assert rows(plan.attention) == [2, 6, 0, 4]
    assert rows(plan.mlp) == [0, 4, 3]
    assert rows(plan.projector) == [1, 5]


def test_padding_is_in_no_cohort_and_what_lies_beyond_is_untouched() -> None:
    plan = planned([3, 0, 3, 3], [True, True, False, False], 6)
    assert plan.rows.tolist() == [0, 1, UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN]
    assert plan.offsets.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_valid(count: int) -> None:
    plan = planned([3] * count, [False] * count, 2)
    assert plan.offsets.tolist() == [0, 0, 0, 0, 0]
    assert plan.rows.tolist() == [UNWRITTEN, UNWRITTEN]
