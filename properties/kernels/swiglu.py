"""Checks of silu-mul, the weighted scatter and the SwiGLU made of them: the span's rows are the twin's, others stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from properties.kernels.gemm import GemmCase
from properties.kernels.judge import (
    eighths,
    expect_bits,
    expect_envelope,
    framed,
    integers,
    make_span,
    normals,
)
from properties.violation import Violation
from reference.gemm import bounded_gemm as twin_gemm
from reference.scatter import scatter_rows as twin_scatter
from reference.silu_mul import silu_mul as twin_silu_mul
from vskipper.policy import SwiGLU


def check_silu_mul(case: GemmCase, device: torch.device, silu_mul: Callable[..., None]) -> None:
    """n is the width. Every element within two roundings of float64; rows at or past the count are untouched."""
    _, gate_up = framed((case.rows, 2 * case.n), case.dtype, device, pad=6 * case.strided)
    gate_up[: case.count] = 4 * normals((case.count, 2 * case.n), case.seed, case.dtype, device)
    if case.count:
        # where a careless exp overflows, and the product with up, below 64, still fits float16
        gate_up[0, 0], gate_up[0, case.n - 1] = -1e3, 1e3
    buffer, out = framed((case.rows, case.n), case.dtype, device, pad=3 * case.strided, written=True)
    untouched = buffer.clone()
    silu_mul(gate_up, make_span(case.order, case.start, case.stop, device), out)
    truth = torch.empty(case.count, case.n, dtype=torch.float64, device=device)
    twin_silu_mul(gate_up.double(), case.count, truth)
    unit = torch.finfo(case.dtype).eps / 2
    # exp's argument is rounded before exp, so the error of exp grows with it
    exp = (8 + 2 * gate_up[: case.count, : case.n].double().abs()) * 2.0**-24
    allowed = 1.01 * (2 * unit + exp) * truth.abs() + torch.finfo(case.dtype).tiny
    if not ((out[: case.count].double() - truth).abs() <= allowed).all():
        raise Violation("SEM-1", "silu_mul_differs", {"case": case})
    out[: case.count] = untouched[1 : 1 + case.count, : case.n]
    expect_bits("MAP-1", "rows_beyond_count_touched", buffer, untouched, case=case)


def check_scatter(case: GemmCase, device: torch.device, scatter_rows: Callable[..., None]) -> None:
    """n is the width. On integers and eighths the whole of `out` and of what surrounds it equals the twin's bits."""
    _, src = framed((case.rows, case.n), case.dtype, device, pad=5 * case.strided)
    src[: case.count] = integers((case.count, case.n), case.seed, case.dtype, device)
    scale = eighths(case.rows, case.seed + 1, case.dtype, device) if case.scale else None
    buffer, out = framed((case.rows, case.n), case.dtype, device, pad=3 * case.strided, written=True)
    if case.add:
        out[case.span_rows] = integers((case.count, case.n), case.seed + 2, case.dtype, device)
    expected = buffer.clone()
    twin_scatter(src, case.order, case.start, case.stop, expected[1:-1, : case.n], scale, add=case.add)
    scatter_rows(src, make_span(case.order, case.start, case.stop, device), out, scale, add=case.add)
    expect_bits("MAP-1", "scatter_rows_differ", buffer, expected, case=case)


def check_swiglu(
    case: GemmCase, device: torch.device, swiglu: Callable[..., None], allocate: Callable[..., Any]
) -> None:
    """k is the hidden size, n the width m: the span's rows inside the envelope, every other row untouched.

    allocate(capacity, width, dtype, device) gives the scratch, here taller and wider than needed and full of NaN.
    """
    _, y = framed((case.rows, case.k), case.dtype, device)
    y[case.span_rows] = normals((case.count, case.k), case.seed, case.dtype, device)
    w_in = normals((2 * case.n, case.k), case.seed + 1, case.dtype, device) / math.sqrt(case.k)
    w_out = normals((case.k, case.n), case.seed + 2, case.dtype, device) / math.sqrt(case.n)
    scale = eighths(case.rows, case.seed + 3, case.dtype, device) if case.scale else None
    buffer, out = framed((case.rows, case.k), case.dtype, device, written=True)
    untouched = buffer.clone()
    scratch = allocate(case.rows + 2, case.n + 3, case.dtype, device)
    scratch.gate_up.fill_(math.nan)
    scratch.hidden.fill_(math.nan)
    span = make_span(case.order, case.start, case.stop, device)
    swiglu(y, SwiGLU(w_in=w_in, w_out=w_out), span, scale, out, scratch)
    results = []
    for dtype in (case.dtype, torch.float64):
        gate_up, hidden, result = (
            torch.zeros(case.rows, width, dtype=dtype, device=device) for width in (2 * case.n, case.n, case.k)
        )
        rows, factor = (case.order, case.start, case.stop), None if scale is None else scale.to(dtype)
        twin_gemm(y.to(dtype), w_in.to(dtype), *rows, gate_up, gather=True, scatter=False)
        twin_silu_mul(gate_up, case.count, hidden)
        twin_gemm(hidden, w_out.to(dtype), *rows, result, gather=False, scatter=True, scale=factor)
        results.append(result[case.span_rows])
    floor = 2.0**-21 * math.sqrt(case.k + case.n)
    expect_envelope(out[case.span_rows], *results, k=1.5, floor=floor, case=case)
    out[case.span_rows] = untouched[1:-1][case.span_rows]
    expect_bits("MAP-1", "rows_outside_span_touched", buffer, untouched, case=case)
