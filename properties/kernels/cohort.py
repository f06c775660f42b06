"""Check of a cohort plan: rows, order and offsets equal the twin's; what lies beyond the last offset is untouched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from properties.kernels.judge import expect_bits
from reference.cohort import plan_cohorts as twin
from vskipper.cohort import CohortPlan

_POISON = -7


def check_cohort(
    actions: Sequence[int],
    valid: Sequence[bool],
    device: torch.device,
    plan: Callable[[Tensor, Tensor, CohortPlan], None],
    *,
    spare: int = 3,
) -> None:
    """Plan `actions` and `valid` into buffers with `spare` entries more than rows, poisoned."""
    rows, offsets = twin(actions, valid)
    expected = rows + [_POISON] * (len(actions) + spare - len(rows))
    out = CohortPlan(
        rows=torch.full((len(expected),), _POISON, dtype=torch.int32, device=device),
        offsets=torch.full((5,), _POISON, dtype=torch.int32, device=device),
    )
    plan(
        torch.tensor(actions, dtype=torch.uint8, device=device),
        torch.tensor(valid, dtype=torch.bool, device=device),
        out,
    )
    facts = {"rows": len(actions), "valid": sum(valid)}
    expect_bits("MAP-1", "cohort_offsets_differ", out.offsets.cpu(), torch.tensor(offsets, dtype=torch.int32), **facts)
    expect_bits("MAP-1", "cohort_rows_differ", out.rows.cpu(), torch.tensor(expected, dtype=torch.int32), **facts)
