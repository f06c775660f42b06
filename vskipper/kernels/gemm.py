"""Count-bounded GEMM: a @ weight.T over the rows of a span whose ends live on the device, gather and scatter fused.

Row invariant: for one tile a row's bits depend on that row and the weight alone (clauses MAP-1, MAP-3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import OutOfResources

from vskipper.cohort import Span
from vskipper.errors import InputError
from vskipper.kernels import check
from vskipper.kernels.interpreter import device_function, interpreted, kernel
from vskipper.kernels.numerics import dot_rows, narrow, widen
from vskipper.kernels.tile import Tile, choose_tile


def bounded_gemm(
    a: Tensor,
    weight: Tensor,
    span: Span,
    out: Tensor,
    *,
    gather: bool,
    scatter: bool,
    scale: Tensor | None = None,
    add: bool = False,
    tile: Tile | None = None,
) -> None:
    """Write a @ weight.T for rows 0 .. stop - start - 1 of the span; no other row of `out` is touched.

    a: [rows, K], its row span.rows[start + i] where gather, else packed, row i. weight: [N, K]. out: [rows, N], row
    span.rows[start + i] where scatter, else row i. One dtype, float32, float16 or bfloat16; unit inner strides; at
    least as many rows as the span's capacity. Sums in float32, rounded to the dtype once. scale: [rows], that dtype,
    by original row number: the rounded result times it, rounded. add: `out` plus that, rounded, in place of it.
    tile: None chooses by N, K, capacity and dtype. Raises InputError.
    """
    capacity, (n, k) = _check(a, weight, span, out, scale)
    if capacity == 0:
        return
    tile = tile or choose_tile(n, k, capacity, a.dtype)
    _check_tile(tile)
    with _refusing_what_does_not_fit(tile):
        _gemm_kernel.launch(
            (triton.cdiv(capacity, tile.block_m) * triton.cdiv(n, tile.block_n),),
            a,
            weight,
            span.rows,
            span.start,
            span.stop,
            out if scale is None else scale,
            out,
            capacity,
            n,
            k,
            a.stride(0),
            weight.stride(0),
            out.stride(0),
            GATHER=gather,
            SCATTER=scatter,
            SCALE=scale is not None,
            ADD=add,
            EVEN_K=k % tile.block_k == 0,
            INTERPRETED=interpreted(),
            BLOCK_M=tile.block_m,
            BLOCK_N=tile.block_n,
            BLOCK_K=tile.block_k,
            GROUP=tile.group,
            num_warps=tile.warps,
            num_stages=tile.stages,
            # a product that is rounded before it is added must not be fused with the addition
            enable_fp_fusion=False,
        )


def _check(a: Tensor, weight: Tensor, span: Span, out: Tensor, scale: Tensor | None) -> tuple[int, tuple[int, int]]:
    where, device = "bounded_gemm", a.device
    check.check_device(f"{where}: a", device)
    check.check_tensor(f"{where}: a", a, dims=2, dtypes=check.FLOATS, device=device)
    check.check_tensor(f"{where}: weight", weight, dims=2, dtypes=(a.dtype,), device=device)
    check.check_tensor(f"{where}: out", out, dims=2, dtypes=(a.dtype,), device=device)
    check.check_span(where, span, device)
    n, k = weight.shape
    capacity = span.rows.shape[0]
    check.require(n > 0 and k > 0, "empty weight", where=f"{where}: weight", got=(n, k), expected="N, K above 0")
    check.check_size(f"{where}: a", a, 1, k)
    check.check_size(f"{where}: out", out, 1, n)
    check.check_capacity(f"{where}: a", a, capacity)
    check.check_capacity(f"{where}: out", out, capacity)
    check.check_written(f"{where}: out", out)
    check.check_scale(where, scale, a.dtype, capacity, device)
    return capacity, (n, k)


def _check_tile(tile: Tile) -> None:
    # dot_rows has the interpreter see the weight's block once for each row
    volume = tile.block_m * tile.block_n * tile.block_k
    check.require(
        not interpreted() or volume <= triton.language.TRITON_MAX_TENSOR_NUMEL,
        "tile too large for the interpreter",
        where="bounded_gemm: tile",
        got=tile,
        expected=f"block_m * block_n * block_k up to {triton.language.TRITON_MAX_TENSOR_NUMEL}",
    )


@contextmanager
def _refusing_what_does_not_fit(tile: Tile) -> Iterator[None]:
    try:
        yield
    except OutOfResources as error:
        # only the compiled kernel tells how much it needs; nothing has been launched
        raise InputError(
            "tile too large for the GPU", where="bounded_gemm: tile", got=tile, expected=f"a tile that fits: {error}"
        ) from error


@kernel(do_not_specialize=["capacity"], do_not_specialize_on_alignment=["start", "stop"])
def _gemm_kernel(
    a: tl.tensor,
    weight: tl.tensor,
    rows: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    scale: tl.tensor,
    out: tl.tensor,
    capacity: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    a_stride: tl.tensor,
    weight_stride: tl.tensor,
    out_stride: tl.tensor,
    GATHER: tl.constexpr,
    SCATTER: tl.constexpr,
    SCALE: tl.constexpr,
    ADD: tl.constexpr,
    EVEN_K: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
) -> None:
    first = tl.load(start)
    count = tl.load(stop) - first
    tiles_m = (capacity + BLOCK_M - 1) // BLOCK_M
    tiles_n = (n + BLOCK_N - 1) // BLOCK_N
    tile_m, tile_n = _grouped(tl.program_id(0), tiles_m, tiles_n, GROUP)
    if tile_m * BLOCK_M >= count:
        return
    packed = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    in_span = packed < count
    row = packed.to(tl.int64)
    if GATHER or SCATTER or SCALE:
        original = tl.load(rows + first + packed, mask=in_span, other=0).to(tl.int64)
    a_row = original if GATHER else row
    out_row = original if SCATTER else row

    acc = tl.full([BLOCK_M, BLOCK_N], 0.0, dtype=tl.float32)
    for base in range(0, k, BLOCK_K):
        inner = base + tl.arange(0, BLOCK_K)
        x_mask = in_span[:, None] if EVEN_K else in_span[:, None] & (inner < k)[None, :]
        w_mask = (column < n)[None, :] if EVEN_K else (column < n)[None, :] & (inner < k)[:, None]
        x = tl.load(a + a_row[:, None] * a_stride + inner[None, :], mask=x_mask, other=0)
        w = tl.load(weight + column.to(tl.int64)[None, :] * weight_stride + inner[:, None], mask=w_mask, other=0)
        acc = dot_rows(x, w, acc, INTERPRETED)

    value = narrow(acc, out.dtype.element_ty, INTERPRETED)
    if SCALE:
        factor = widen(tl.load(scale + original, mask=in_span, other=0), INTERPRETED)
        value = narrow(widen(value, INTERPRETED) * factor[:, None], out.dtype.element_ty, INTERPRETED)
    place = out + out_row[:, None] * out_stride + column[None, :]
    inside = in_span[:, None] & (column < n)[None, :]
    if ADD:
        old = widen(tl.load(place, mask=inside, other=0), INTERPRETED)
        value = narrow(old + widen(value, INTERPRETED), out.dtype.element_ty, INTERPRETED)
    tl.store(place, value, mask=inside)


@device_function
def _grouped(program: tl.tensor, tiles_m: tl.tensor, tiles_n: tl.tensor, GROUP: tl.constexpr) -> tl.tensor:
    """Row and column block of a program: GROUP row blocks share a column block before the next one is begun."""
    span = GROUP * tiles_n
    first = program // span * GROUP
    size = tl.minimum(tiles_m - first, GROUP)
    return first + program % span % size, program % span // size
