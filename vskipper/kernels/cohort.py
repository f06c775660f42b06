"""The cohort plan as one fused kernel: same result as vskipper.cohort.plan_cohorts, one launch (clause MAP-1)."""

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from vskipper.action import COHORT_ORDER
from vskipper.cohort import CohortPlan
from vskipper.kernels.check import check_capacity, check_device, check_size, check_tensor
from vskipper.kernels.interpreter import device_function, interpreted, kernel

# two bits for each cohort: its action code
_PACKED_ORDER = sum(int(action) << 2 * index for index, action in enumerate(COHORT_ORDER))


def plan_cohorts(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
    """Fill `out` from actions uint8 [n] and valid bool [n]; n up to out's capacity, 0 included.

    Rows ascend within a cohort. out.rows from offsets[4] on is not written. Raises InputError.
    """
    where, n = "plan_cohorts", actions.shape[0] if actions.dim() else 0
    check_device(f"{where}: actions", actions.device)
    check_tensor(f"{where}: actions", actions, dims=1, dtypes=(torch.uint8,), device=actions.device)
    check_tensor(f"{where}: valid", valid, dims=1, dtypes=(torch.bool,), device=actions.device)
    check_size(f"{where}: valid", valid, 0, n)
    check_tensor(f"{where}: out.rows", out.rows, dims=1, dtypes=(torch.int32,), device=actions.device)
    check_capacity(f"{where}: out.rows", out.rows, n)
    check_tensor(f"{where}: out.offsets", out.offsets, dims=1, dtypes=(torch.int32,), device=actions.device)
    check_size(f"{where}: out.offsets", out.offsets, 0, len(COHORT_ORDER) + 1)
    block = 1024 if interpreted() else 512
    _plan_kernel.launch(
        (1,), actions, valid.view(torch.uint8), out.rows, out.offsets, n, ORDER=_PACKED_ORDER, BLOCK=block, num_warps=4
    )


@kernel(do_not_specialize=["n"])
def _plan_kernel(
    actions: tl.tensor,
    valid: tl.tensor,
    rows: tl.tensor,
    offsets: tl.tensor,
    n: tl.tensor,
    ORDER: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    cohort = tl.arange(0, 4)
    code = (ORDER >> (2 * cohort)) & 3
    lane = tl.arange(0, BLOCK)
    counts = tl.full([4], 0, dtype=tl.int32)
    for start in range(0, n, BLOCK):
        counts += tl.sum(_membership(actions, valid, start + lane, n, code), axis=0)
    ends = tl.cumsum(counts, axis=0)
    tl.store(offsets, 0)
    tl.store(offsets + 1 + cohort, ends)
    begins = ends - counts
    for start in range(0, n, BLOCK):
        member = _membership(actions, valid, start + lane, n, code)
        place = begins[None, :] + tl.cumsum(member, axis=0) - 1
        row = tl.broadcast_to((start + lane)[:, None], [BLOCK, 4])
        tl.store(rows + place.to(tl.int64), row, mask=member == 1)
        begins += tl.sum(member, axis=0)


@device_function
def _membership(actions: tl.tensor, valid: tl.tensor, row: tl.tensor, n: tl.tensor, code: tl.tensor) -> tl.tensor:
    """int32 [rows, cohorts]: 1 where the row is valid and has the cohort's action."""
    action = tl.load(actions + row, mask=row < n, other=0).to(tl.int32)
    counted = tl.load(valid + row, mask=row < n, other=0) != 0
    return ((action[:, None] == code[None, :]) & counted[:, None]).to(tl.int32)
