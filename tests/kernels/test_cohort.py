"""The fused cohort plan against its twin, the torch plan and plans written by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.kernels.cohort import check_cohort
from properties.violation import Violation
from vskipper import cohort as with_torch
from vskipper.cohort import CohortPlan, empty_plan
from vskipper.errors import InputError
from vskipper.kernels.cohort import plan_cohorts

# actions, valid, rows, offsets
BY_HAND = (
    ((), (), [], [0, 0, 0, 0, 0]),
    ((3,), (True,), [0], [0, 0, 1, 1, 1]),
    ((0,), (False,), [], [0, 0, 0, 0, 0]),
    ((0, 1, 2, 3), (True,) * 4, [1, 3, 2, 0], [0, 1, 2, 3, 4]),
    ((3, 0, 3, 2, 0, 1, 3), (True, True, False, True, True, True, True), [5, 0, 6, 3, 1, 4], [0, 1, 3, 4, 6]),
)


@pytest.mark.parametrize(("actions", "valid", "rows", "offsets"), BY_HAND)
def test_plan_by_hand(
    actions: tuple[int, ...], valid: tuple[bool, ...], rows: list[int], offsets: list[int], device: torch.device
) -> None:
    plan = empty_plan(len(actions), device)
    plan_cohorts(
        torch.tensor(actions, dtype=torch.uint8, device=device),
        torch.tensor(valid, dtype=torch.bool, device=device),
        plan,
    )
    assert plan.offsets.tolist() == offsets
    assert plan.rows.tolist()[: offsets[4]] == rows


@settings(max_examples=25, deadline=None, database=None)
@given(rows=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_plan_equals_the_twin(rows: list[tuple[int, bool]], device: torch.device) -> None:
    """Codes that are no action (4, 5) belong to no cohort."""
    actions, valid = [code for code, _ in rows], [flag for _, flag in rows]
    check_cohort(actions, valid, device, plan_cohorts)
    check_cohort(actions, valid, device, with_torch.plan_cohorts)


@pytest.mark.parametrize("n", [511, 512, 1023, 1024, 1025, 2048, 8192, 8200])
def test_plan_across_blocks(n: int, device: torch.device) -> None:
    draw = torch.Generator().manual_seed(n)
    actions = torch.randint(0, 4, (n,), generator=draw).tolist()
    valid = (torch.rand(n, generator=draw) < 0.9).tolist()
    check_cohort(actions, valid, device, plan_cohorts)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_one_cohort_takes_all(code: int, device: torch.device) -> None:
    check_cohort([code] * 1030, [True] * 1030, device, plan_cohorts, spare=0)


def _descending(actions: torch.Tensor, valid: torch.Tensor, out: CohortPlan) -> None:
    plan_cohorts(actions.flip(0), valid.flip(0), out)
    count = int(out.offsets[4])
    out.rows[:count] = actions.numel() - 1 - out.rows[:count]


def _padding_counted(actions: torch.Tensor, valid: torch.Tensor, out: CohortPlan) -> None:
    plan_cohorts(actions, torch.ones_like(valid), out)


def _writes_beyond(actions: torch.Tensor, valid: torch.Tensor, out: CohortPlan) -> None:
    plan_cohorts(actions, valid, out)
    out.rows[int(out.offsets[4])] = 0


@pytest.mark.parametrize(
    ("defect", "reason"),
    [
        (_descending, "cohort_rows_differ"),
        (_padding_counted, "cohort_offsets_differ"),
        (_writes_beyond, "cohort_rows_differ"),
    ],
)
def test_the_check_sees_a_defect(defect: object, reason: str, device: torch.device) -> None:
    with pytest.raises(Violation) as caught:
        check_cohort([3, 0, 3, 1], [True, True, True, False], device, defect)  # type: ignore[arg-type]
    assert caught.value.reason == reason


def test_refusals(device: torch.device) -> None:
    actions = torch.zeros(4, dtype=torch.uint8, device=device)
    valid = torch.ones(4, dtype=torch.bool, device=device)
    plan = empty_plan(4, device)
    bad = (
        (actions.int(), valid, plan, "actions"),
        (actions[None], valid, plan, "actions"),
        (actions.repeat(2)[::2], valid, plan, "actions"),
        (actions, valid.int(), plan, "valid"),
        (actions, valid[:3], plan, "valid"),
        (actions, valid, empty_plan(3, device), "out.rows"),
        (actions, valid, CohortPlan(rows=plan.rows.long(), offsets=plan.offsets), "out.rows"),
        (actions, valid, CohortPlan(rows=plan.rows, offsets=plan.offsets[:4]), "out.offsets"),
        (actions.to("meta"), valid, plan, "actions"),
        (actions, valid.to("meta"), plan, "valid"),
    )
    for *arguments, name in bad:
        with pytest.raises(InputError) as caught:
            plan_cohorts(*arguments)  # type: ignore[arg-type]
        assert caught.value.where == f"plan_cohorts: {name}"
