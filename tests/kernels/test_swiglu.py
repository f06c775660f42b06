"""silu-mul, the weighted scatter and the SwiGLU made of them, against their twins."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from properties.kernels.gemm import GemmCase
from properties.kernels.judge import make_span
from properties.kernels.swiglu import check_scatter, check_silu_mul, check_swiglu
from properties.violation import Violation
from vskipper.cohort import Span
from vskipper.errors import InputError
from vskipper.kernels.scatter import scatter_rows
from vskipper.kernels.silu_mul import silu_mul
from vskipper.kernels.swiglu import SwiGLUScratch, swiglu
from vskipper.policy import SwiGLU

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
flags = st.booleans()


@st.composite
def cases(draw: st.DrawFn) -> GemmCase:
    rows = draw(st.integers(1, 70))
    count = draw(st.integers(0, rows))
    return GemmCase(
        rows=rows,
        start=draw(st.integers(0, rows - count)),
        count=count,
        n=draw(st.integers(1, 90)),
        k=draw(st.integers(1, 50)),
        dtype=draw(st.sampled_from(DTYPES)),
        scale=draw(flags),
        add=draw(flags),
        strided=draw(flags),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=30, deadline=None, database=None)
@given(case=cases())
# its largest gate meets an up of -6.7
@example(case=GemmCase(rows=11, start=0, count=7, n=20, k=1, dtype=torch.float16, seed=60))
def test_silu_mul(case: GemmCase, device: torch.device) -> None:
    check_silu_mul(case, device, silu_mul)


@settings(max_examples=30, deadline=None, database=None)
@given(case=cases())
def test_scatter(case: GemmCase, device: torch.device) -> None:
    check_scatter(case, device, scatter_rows)


@settings(max_examples=15, deadline=None, database=None)
@given(case=cases())
def test_swiglu(case: GemmCase, device: torch.device) -> None:
    check_swiglu(case, device, swiglu, SwiGLUScratch.allocate)


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide(dtype: torch.dtype, device: torch.device) -> None:
    case = GemmCase(rows=70, start=1, count=66, n=1100, k=64, dtype=dtype, scale=True)
    check_silu_mul(case, device, silu_mul)
    check_scatter(case, device, scatter_rows)


def test_scatter_without_scale_copies_bits(device: torch.device) -> None:
    """Every 16-bit pattern, NaN payloads, infinities and subnormals among them."""
    patterns = torch.arange(-(2**15), 2**15, dtype=torch.int16, device=device).reshape(64, 1024)
    for dtype in (torch.float16, torch.bfloat16):
        out = torch.zeros(64, 1024, dtype=dtype, device=device)
        rows = list(range(63, -1, -1))
        scatter_rows(patterns.view(dtype), make_span(rows, 0, 64, device), out)
        assert torch.equal(out.view(torch.int16), patterns.flip(0))


def test_swiglu_adds_to_the_residual(device: torch.device) -> None:
    draw = torch.Generator(device).manual_seed(0)
    y, residual = (torch.randn(9, 32, generator=draw, device=device) for _ in range(2))
    weights = SwiGLU(
        w_in=torch.randn(48, 32, generator=draw, device=device),
        w_out=torch.randn(32, 24, generator=draw, device=device),
    )
    span, scratch = make_span([4, 1, 7, *range(6)], 0, 3, device), SwiGLUScratch.allocate(9, 24, y.dtype, device)
    branch, sum_ = torch.zeros_like(y), residual.clone()
    swiglu(y, weights, span, None, branch, scratch)
    swiglu(y, weights, span, None, sum_, scratch, add=True)
    assert torch.equal(sum_, residual + branch)


def _one_row_more(kernel: Any) -> Any:
    def defect(*given: Any, **named: Any) -> None:
        wider = [
            Span(rows=value.rows, start=value.start, stop=value.stop + 1) if isinstance(value, Span) else value
            for value in given
        ]
        kernel(*wider, **named)

    return defect


@pytest.mark.parametrize(
    ("check", "kernel", "reason"),
    [
        (check_silu_mul, silu_mul, "rows_beyond_count_touched"),
        (check_scatter, scatter_rows, "scatter_rows_differ"),
        (partial(check_swiglu, allocate=SwiGLUScratch.allocate), swiglu, "rows_outside_span_touched"),
    ],
)
def test_the_check_sees_a_row_too_many(check: Any, kernel: Any, reason: str, device: torch.device) -> None:
    def poisoned_differently(*given: Any, **named: Any) -> None:
        # the rows beyond are NaN and would come out as NaN: give them a value
        given[0].nan_to_num_(nan=1.0)
        _one_row_more(kernel)(*given, **named)

    case = GemmCase(rows=9, start=2, count=5, n=20, k=12, seed=3)
    check(case, device, kernel)
    with pytest.raises(Violation) as caught:
        check(case, device, poisoned_differently)
    assert caught.value.reason == reason


def test_the_silu_check_sees_a_gelu(device: torch.device) -> None:
    def gelu(gate_up: Tensor, span: Span, out: Tensor) -> None:
        gate, up = gate_up.chunk(2, dim=1)
        out[: int(span.stop - span.start)] = (torch.nn.functional.gelu(gate) * up)[: int(span.stop - span.start)]

    with pytest.raises(Violation) as caught:
        check_silu_mul(GemmCase(rows=9, start=2, count=5, n=20, k=1), device, gelu)
    assert caught.value.reason == "silu_mul_differs"


def test_refusals(device: torch.device) -> None:
    span = make_span(list(range(8)), 0, 4, device)
    wide, narrow = torch.zeros(8, 12, device=device), torch.zeros(8, 6, device=device)
    weights = SwiGLU(w_in=torch.zeros(12, 6, device=device), w_out=torch.zeros(6, 6, device=device))
    scratch = SwiGLUScratch.allocate(8, 6, torch.float32, device)
    small = SwiGLUScratch.allocate(8, 5, torch.float32, device)
    half = SwiGLU(w_in=weights.w_in[:11], w_out=weights.w_out)
    refused: tuple[tuple[Any, tuple[Any, ...], str], ...] = (
        (silu_mul, (wide[:, :11], span, narrow), "silu_mul: gate_up"),
        (silu_mul, (wide[:7], span, narrow), "silu_mul: gate_up"),
        (silu_mul, (wide.double(), span, narrow.double()), "silu_mul: gate_up"),
        (silu_mul, (wide, span, narrow.half()), "silu_mul: out"),
        (silu_mul, (wide, span, narrow[:7]), "silu_mul: out"),
        (silu_mul, (wide, span, narrow[:1].expand(8, 6)), "silu_mul: out"),
        (scatter_rows, (narrow[:7], span, narrow), "scatter_rows: src"),
        (scatter_rows, (narrow, span, wide), "scatter_rows: out"),
        (scatter_rows, (narrow, span, narrow.half()), "scatter_rows: out"),
        (scatter_rows, (narrow, span, narrow[:7]), "scatter_rows: out"),
        (scatter_rows, (narrow, span, narrow.clone(), torch.ones(7, device=device)), "scatter_rows: scale"),
        (swiglu, (narrow, half, span, None, narrow.clone(), scratch), "swiglu: weights.w_in"),
        (swiglu, (narrow, weights, span, None, narrow.clone(), small), "swiglu: scratch"),
    )
    for kernel, arguments, where in refused:
        with pytest.raises(InputError) as caught:
            kernel(*arguments)
        assert caught.value.where == where
