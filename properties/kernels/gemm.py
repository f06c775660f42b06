"""Checks of a count-bounded GEMM: exact on integers, row invariant bit for bit, inside the envelope on real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from properties.kernels.judge import (
    eighths,
    expect_bits,
    expect_envelope,
    framed,
    integers,
    make_span,
    normals,
    shuffled,
)
from reference.gemm import bounded_gemm as twin

Gemm = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmCase:
    """A span of `count` rows from `start` on in a plan of `rows` rows in shuffled order; strided pads every row."""

    rows: int
    start: int
    count: int
    n: int
    k: int
    dtype: torch.dtype = torch.float32
    gather: bool = True
    scatter: bool = True
    scale: bool = False
    add: bool = False
    strided: bool = False
    seed: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.count

    @property
    def order(self) -> list[int]:
        return shuffled(self.rows, self.seed)

    @property
    def span_rows(self) -> list[int]:
        return self.order[self.start : self.stop]

    def at(self, *, scattered: bool) -> list[int]:
        """Where the span's rows stand in a tensor of original or of packed rows."""
        return self.span_rows if scattered else list(range(self.count))


def check_gemm(case: GemmCase, device: torch.device, gemm: Gemm) -> None:
    """On integers every sum is exact: the whole of `out` and of what surrounds it equals the twin's, bit for bit.

    Rows of `a` outside the span, the memory around the weight and around `out` are NaN.
    """
    a = _place(integers((case.rows, case.k), case.seed, case.dtype, device), case, device)
    weight = _weight(integers((case.n, case.k), case.seed + 1, case.dtype, device), case)
    scale = eighths(case.rows, case.seed + 2, case.dtype, device) if case.scale else None
    buffer, out = framed((case.rows, case.n), case.dtype, device, pad=5 * case.strided, written=True)
    if case.add:
        at = case.at(scattered=case.scatter)
        out[at] = integers((case.count, case.n), case.seed + 3, case.dtype, device)
    expected = buffer.clone()
    flags: dict[str, Any] = {"gather": case.gather, "scatter": case.scatter, "scale": scale, "add": case.add}
    twin(a, weight, case.order, case.start, case.stop, expected[1:-1, : case.n], **flags)
    gemm(a, weight, make_span(case.order, case.start, case.stop, device), out, **flags)
    expect_bits("MAP-1", "gemm_rows_differ", buffer, expected, case=case)


def check_gemm_invariance(case: GemmCase, device: torch.device, gemm: Gemm) -> None:
    """A row's bits are the same whatever its place, the other rows' content, the count, gather and scatter."""
    a = normals((case.rows, case.k), case.seed, case.dtype, device)
    weight = normals((case.n, case.k), case.seed + 1, case.dtype, device)
    whole = replace(case, start=0, count=case.rows, gather=True, scatter=True, seed=case.seed + 7)
    expected = _run(a, weight, whole, device, gemm)[case.span_rows]
    for gather in (True, False):
        for scatter in (True, False):
            part = replace(case, gather=gather, scatter=scatter)
            got = _run(a, weight, part, device, gemm)[part.at(scattered=scatter)]
            expect_bits("MAP-3", "row_depends_on_others", got, expected, case=part)


def check_gemm_unit_scale(case: GemmCase, device: torch.device, gemm: Gemm) -> None:
    """A scale of ones changes no bit."""
    a = normals((case.rows, case.k), case.seed, case.dtype, device)
    weight = normals((case.n, case.k), case.seed + 1, case.dtype, device)
    ones = torch.ones(case.rows, dtype=case.dtype, device=device)
    plain, scaled = (_run(a, weight, case, device, gemm, scale) for scale in (None, ones))
    expect_bits("SEM-1", "unit_scale_changes_bits", scaled, plain, case=case)


def check_gemm_envelope(case: GemmCase, device: torch.device, gemm: Gemm) -> None:
    """On real numbers: no further from float64 than the twin in the same dtype, within a small factor."""
    a = normals((case.rows, case.k), case.seed, case.dtype, device)
    weight = normals((case.n, case.k), case.seed + 1, case.dtype, device)
    scale = eighths(case.rows, case.seed + 2, case.dtype, device) if case.scale else None
    got = _run(a, weight, replace(case, gather=True), device, gemm, scale)[case.at(scattered=case.scatter)]
    r, t = (torch.zeros(case.rows, case.n, dtype=dtype, device=device) for dtype in (case.dtype, torch.float64))
    for out in (r, t):
        factor = None if scale is None else scale.to(out.dtype)
        rows = (case.order, case.start, case.stop)
        twin(a.to(out.dtype), weight.to(out.dtype), *rows, out, gather=True, scatter=False, scale=factor)
    floor = 2.0**-22 * math.sqrt(case.k)
    expect_envelope(got, r[: case.count], t[: case.count], k=1.5, floor=floor, case=case)


def _run(
    a: Tensor, weight: Tensor, case: GemmCase, device: torch.device, gemm: Gemm, scale: Tensor | None = None
) -> Tensor:
    """`out` of one call; rows of `a` outside the span are NaN."""
    _, out = framed((case.rows, case.n), case.dtype, device, written=True)
    span = make_span(case.order, case.start, case.stop, device)
    gemm(_place(a, case, device), weight, span, out, gather=case.gather, scatter=case.scatter, scale=scale)
    return out


def _place(a: Tensor, case: GemmCase, device: torch.device) -> Tensor:
    """The span's rows where the case reads them, NaN everywhere else."""
    _, view = framed(a.shape, a.dtype, device, pad=3 * case.strided)
    view[case.at(scattered=case.gather)] = a[case.span_rows]
    return view


def _weight(weight: Tensor, case: GemmCase) -> Tensor:
    _, view = framed(weight.shape, weight.dtype, weight.device, pad=8 * case.strided)
    view.copy_(weight)
    return view
