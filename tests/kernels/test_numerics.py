"""Conversions between formats, every bit pattern of the narrow ones: what the interpreter gets wrong by itself."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from vskipper.kernels.interpreter import interpreted
from vskipper.kernels.numerics import narrow, widen


@triton.jit
def _widen_kernel(source: tl.tensor, target: tl.tensor, INTERPRETED: tl.constexpr, SIZE: tl.constexpr) -> None:
    at = tl.arange(0, SIZE)
    tl.store(target + at, widen(tl.load(source + at), INTERPRETED))


@triton.jit
def _narrow_kernel(source: tl.tensor, target: tl.tensor, INTERPRETED: tl.constexpr, SIZE: tl.constexpr) -> None:
    at = tl.arange(0, SIZE)
    tl.store(target + at, narrow(tl.load(source + at), target.dtype.element_ty, INTERPRETED))


def _same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal bits, any NaN for a NaN."""
    integer = torch.int16 if got.element_size() == 2 else torch.int32
    return bool(((got.view(integer) == expected.view(integer)) | (got.isnan() & expected.isnan())).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_widen_every_pattern(dtype: torch.dtype, device: torch.device) -> None:
    integer = torch.int16 if dtype.itemsize == 2 else torch.uint8
    size = 2 ** (8 * dtype.itemsize)
    source = torch.arange(size, device=device).to(integer).view(dtype)
    target = torch.empty(size, device=device)
    _widen_kernel[(1,)](source, target, INTERPRETED=interpreted(), SIZE=size)
    assert _same(target, source.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_narrow_rounds_to_nearest_even(dtype: torch.dtype, device: torch.device) -> None:
    """Every value of the format, halfway to the next, and the float32 just below and above halfway."""
    patterns = torch.arange(2**16, device=device).to(torch.int16).view(dtype).float().view(torch.int32)
    half = torch.tensor(1 << (15 if dtype == torch.bfloat16 else 12), device=device)
    for offset in (0, half - 1, half, half + 1, 1):
        source = (patterns + offset).to(torch.int32).view(torch.float32)
        target = torch.empty(2**16, dtype=dtype, device=device)
        _narrow_kernel[(1,)](source, target, INTERPRETED=interpreted(), SIZE=2**16)
        assert _same(target, source.to(dtype)), int(offset)
