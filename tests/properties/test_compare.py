"""The two comparisons and the pool's bytes."""

from __future__ import annotations

import pytest
import torch

from properties import margin
from properties.compare import Envelope, differing, outside, row_errors
from properties.pool import changed_slots, fill_nan, fill_pattern, snapshot, touched
from properties.values import hidden_values, kv_values
from properties.violation import Violation

RULE = Envelope(k=2.0, floor=1.0)
EPS = torch.finfo(torch.float32).eps


def test_an_error_is_a_share_of_the_rows_largest_value_or_of_one() -> None:
    truth = torch.tensor([[4.0, 0.0], [0.5, 0.0]], dtype=torch.float64)
    assert row_errors(truth + 0.5, truth).tolist() == [0.125, 0.5]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_finite_is_outside(bad: float) -> None:
    truth = torch.ones(2, 2, dtype=torch.float64)
    got = truth.float()
    got[1, 0] = bad
    found = outside(got, truth.float(), truth, RULE)
    assert found is not None and found[0] == 1


def test_the_envelope_grows_with_the_references_own_error() -> None:
    truth = torch.ones(3, 4, dtype=torch.float64)
    near, far = truth.float() + 3 * EPS, truth.float() + 4 * EPS
    assert outside(near, truth.float(), truth, Envelope(k=2.0, floor=2.0)) is not None
    assert outside(near, truth.float() + EPS, truth, RULE) is None
    assert outside(far, truth.float() + EPS, truth, RULE) is not None


def test_the_floor_is_lower_where_epsilon_is_large() -> None:
    assert RULE.least(torch.float32) == EPS
    assert Envelope(narrow_floor=0.5).least(torch.bfloat16) == 0.5 * torch.finfo(torch.bfloat16).eps


def test_the_worst_margin_is_kept() -> None:
    truth = torch.ones(1, 4, dtype=torch.float64)
    with margin.recorded() as record:
        outside(truth.float() + EPS, truth.float() + EPS, truth, RULE)
        outside(truth.float(), truth.float() + EPS, truth, RULE)
    assert record.worst == pytest.approx(1 / 3)


def test_a_reference_that_is_not_finite_is_no_measure() -> None:
    with pytest.raises(ValueError, match="not finite"):
        RULE.bound(torch.full((1, 1), torch.nan), torch.ones(1, 1, dtype=torch.float64))


def test_another_shape_is_a_violation() -> None:
    truth = torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(Violation, match="wrong_shape"):
        outside(torch.ones(2, 3), truth.float(), truth, RULE)


def test_a_difference_says_how_many_where_and_what() -> None:
    one = torch.zeros(2, 3)
    two = one.clone()
    two[1, 1], two[1, 2] = 1.0, 2.0
    found = differing(two, one)
    assert found is not None
    assert (found.count, found.index, found.got, found.expected) == (2, (1, 1), 1.0, 0.0)
    assert differing(one, one.clone()) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int32])
def test_bits_and_not_values_are_compared(dtype: torch.dtype) -> None:
    assert differing(torch.ones(3).to(dtype), torch.ones(3).to(dtype)) is None
    assert differing(torch.ones(3).to(dtype), torch.zeros(3).to(dtype)) is not None


def test_minus_zero_is_another_zero() -> None:
    assert differing(torch.tensor([-0.0]), torch.tensor([0.0])) is not None


def test_tensors_of_another_dtype_are_not_compared() -> None:
    with pytest.raises(ValueError, match="compare"):
        differing(torch.zeros(2), torch.zeros(2, dtype=torch.float64))


def _pool(slots: int = 6) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    return tuple((torch.zeros(slots, 2, 4), torch.zeros(slots, 2, 4)) for _ in range(2))


def test_a_snapshot_is_a_copy() -> None:
    kv = _pool()
    before = snapshot(kv)
    kv[1][1][3, 0, 0] = 1.0
    after = snapshot(kv)
    assert changed_slots(before[1], after[1]) == {3}
    assert changed_slots(before[0], after[0]) == set()
    found = touched(before, after, [0, 1])
    assert found is not None and (found.layer, found.part, found.slot, found.byte) == (1, "v", 3, 2)
    assert touched(before, after, [3]) is None


def test_a_pool_that_is_a_view_is_read_as_it_lies() -> None:
    wide = torch.zeros(6, 2, 8)
    kv = ((wide[..., :4], wide[..., 4:]),)
    before = snapshot(kv)
    wide[2, 1, 5] = 1.0
    found = touched(before, snapshot(kv), [])
    assert found is not None and (found.part, found.slot) == ("v", 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_poison_and_pattern(dtype: torch.dtype) -> None:
    kv = ((torch.zeros(4, 2, 4).to(dtype), torch.zeros(4, 2, 4).to(dtype)),)
    fill_pattern(kv, 1)
    assert torch.isfinite(kv[0][0].float()).all() and len({tuple(s.flatten().tolist()) for s in kv[0][0].float()}) == 4
    fill_nan(kv, [1, 2])
    assert torch.isnan(kv[0][1].float()).flatten(1).all(1).tolist() == [False, True, True, False]
    fill_nan(kv)
    assert torch.isnan(kv[0][0].float()).all()


def test_drawn_values_are_exact_and_differ_by_seed() -> None:
    kv, x = kv_values(5, 40, 2, 16), hidden_values(5, 40, 64)
    assert torch.equal(kv, kv.to(torch.float8_e4m3fn).float()) and torch.equal(x, x.bfloat16().float())
    assert abs(float(x.mean())) < 0.1 and 1.0 < float(x.std()) < 1.3
    assert not torch.equal(x, hidden_values(6, 40, 64))
    assert len({tuple(row.tolist()) for row in x}) == 40
