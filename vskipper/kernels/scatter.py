"""Packed rows back to where they came from, scaled and added where asked (clause MAP-1)."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from vskipper.cohort import Span
from vskipper.kernels import check
from vskipper.kernels.interpreter import interpreted, kernel
from vskipper.kernels.numerics import narrow, widen
from vskipper.kernels.tile import row_blocks


def scatter_rows(src: Tensor, span: Span, out: Tensor, scale: Tensor | None = None, *, add: bool = False) -> None:
    """out[span.rows[start + i]] = src[i] for i < stop - start; no other row is touched.

    src: [rows, d], packed. out: [rows, d]. One dtype, unit inner strides, at least as many rows as the span's
    capacity. scale: [rows], that dtype, by original row number: src times it, rounded. add: `out` plus that, rounded.
    Without scale and add the bits are copied. Raises InputError.
    """
    where, device, capacity = "scatter_rows", src.device, span.rows.shape[0]
    check.check_device(f"{where}: src", device)
    check.check_tensor(f"{where}: src", src, dims=2, dtypes=check.FLOATS, device=device)
    check.check_tensor(f"{where}: out", out, dims=2, dtypes=(src.dtype,), device=device)
    check.check_span(where, span, device)
    check.check_size(f"{where}: out", out, 1, src.shape[1])
    check.check_capacity(f"{where}: src", src, capacity)
    check.check_capacity(f"{where}: out", out, capacity)
    check.check_written(f"{where}: out", out)
    check.check_scale(where, scale, src.dtype, capacity, device)
    if out.numel() == 0 or capacity == 0:
        return
    block_m, block_n = row_blocks(capacity, out.shape[1])
    _scatter_kernel.launch(
        (triton.cdiv(capacity, block_m), triton.cdiv(out.shape[1], block_n)),
        src,
        span.rows,
        span.start,
        span.stop,
        out if scale is None else scale,
        out,
        out.shape[1],
        src.stride(0),
        out.stride(0),
        SCALE=scale is not None,
        ADD=add,
        INTERPRETED=interpreted(),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        # a product that is rounded before it is added must not be fused with the addition
        enable_fp_fusion=False,
    )


@kernel(do_not_specialize_on_alignment=["start", "stop"])
def _scatter_kernel(
    src: tl.tensor,
    rows: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    scale: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    src_stride: tl.tensor,
    out_stride: tl.tensor,
    SCALE: tl.constexpr,
    ADD: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
) -> None:
    first = tl.load(start)
    count = tl.load(stop) - first
    if tl.program_id(0) * BLOCK_M >= count:
        return
    packed = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (packed < count)[:, None] & (column < width)[None, :]
    row = tl.load(rows + first + packed, mask=packed < count, other=0).to(tl.int64)
    value = tl.load(src + packed.to(tl.int64)[:, None] * src_stride + column[None, :], mask=inside, other=0)
    if SCALE:
        factor = widen(tl.load(scale + row, mask=packed < count, other=0), INTERPRETED)
        value = narrow(widen(value, INTERPRETED) * factor[:, None], out.dtype.element_ty, INTERPRETED)
    place = out + row[:, None] * out_stride + column[None, :]
    if ADD:
        old = widen(tl.load(place, mask=inside, other=0), INTERPRETED)
        value = narrow(old + widen(value, INTERPRETED), out.dtype.element_ty, INTERPRETED)
    tl.store(place, value, mask=inside)
