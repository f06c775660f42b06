"""silu(gate) * up on packed rows, as many as a span has."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vskipper.cohort import Span
from vskipper.kernels import check
from vskipper.kernels.interpreter import interpreted, kernel
from vskipper.kernels.numerics import narrow, widen
from vskipper.kernels.tile import row_blocks


def silu_mul(gate_up: Tensor, span: Span, out: Tensor) -> None:
    """out[i] = silu(gate_up[i, :m]) * gate_up[i, m:] for i < stop - start; no other row is touched.

    gate_up: [rows, 2 m], out: [rows, m], one dtype, unit inner strides, at least as many rows as the span's capacity.
    silu in float32, rounded to the dtype, times up, rounded. Raises InputError.
    """
    where, device, capacity = "silu_mul", gate_up.device, span.rows.shape[0]
    check.check_device(f"{where}: gate_up", device)
    check.check_tensor(f"{where}: gate_up", gate_up, dims=2, dtypes=check.FLOATS, device=device)
    check.check_tensor(f"{where}: out", out, dims=2, dtypes=(gate_up.dtype,), device=device)
    check.check_span(where, span, device)
    check.check_size(f"{where}: gate_up", gate_up, 1, 2 * out.shape[1])
    check.check_capacity(f"{where}: gate_up", gate_up, capacity)
    check.check_capacity(f"{where}: out", out, capacity)
    check.check_written(f"{where}: out", out)
    if out.numel() == 0 or capacity == 0:
        return
    block_m, block_n = row_blocks(capacity, out.shape[1])
    _silu_mul_kernel.launch(
        (triton.cdiv(capacity, block_m), triton.cdiv(out.shape[1], block_n)),
        gate_up,
        span.start,
        span.stop,
        out,
        out.shape[1],
        gate_up.stride(0),
        out.stride(0),
        INTERPRETED=interpreted(),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
    )


@kernel(do_not_specialize_on_alignment=["start", "stop"])
def _silu_mul_kernel(
    gate_up: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    in_stride: tl.tensor,
    out_stride: tl.tensor,
    INTERPRETED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
) -> None:
    count = tl.load(stop) - tl.load(start)
    if tl.program_id(0) * BLOCK_M >= count:
        return
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row < count)[:, None] & (column < width)[None, :]
    place = gate_up + row.to(tl.int64)[:, None] * in_stride + column[None, :]
    gate = widen(tl.load(place, mask=inside, other=0), INTERPRETED)
    up = widen(tl.load(place + width, mask=inside, other=0), INTERPRETED)
    # exp of a number that is never positive cannot overflow
    small = tl.exp(-tl.abs(gate))
    silu = gate * (tl.where(gate >= 0, 1.0, small) / (1.0 + small))
    silu = widen(narrow(silu, out.dtype.element_ty, INTERPRETED), INTERPRETED)
    value = narrow(silu * up, out.dtype.element_ty, INTERPRETED)
    tl.store(out + row.to(tl.int64)[:, None] * out_stride + column[None, :], value, mask=inside)
