"""The cohort plan, row by row: which rows take which action, in the order MLP only, both, attention only, neither."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

# action codes: bit 0 attention runs, bit 1 MLP runs. 1 skips the MLP, 3 runs both, 2 skips attention, 0 projects
ORDER = (1, 3, 2, 0)


def plan_cohorts(actions: Sequence[int] | Tensor, valid: Sequence[bool] | Tensor) -> tuple[list[int], list[int]]:
    """Row numbers of the valid rows, cohort by cohort, ascending within one, and the five offsets between cohorts."""
    codes = [int(code) for code in actions]
    counted = [bool(flag) for flag in valid]
    rows: list[int] = []
    offsets = [0]
    for action in ORDER:
        for row, code in enumerate(codes):
            if counted[row] and code == action:
                rows.append(row)
        offsets.append(len(rows))
    return rows, offsets
