"""Comparisons and poisoned tensors for kernel checks: bits where bits are owed, an envelope where only R and T are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from properties.violation import Violation
from vskipper.cohort import Span

# a NaN that no operation makes and no input holds, so that a NaN written over it shows
_POISON = {torch.float32: 0x7FC0DEAD, torch.bfloat16: 0x7FDE, torch.float16: 0x7EAD}
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: Tensor) -> Tensor:
    """The tensor's bit patterns, so that a NaN equals itself and 0.0 differs from -0.0."""
    return tensor.contiguous().view(_BITS[tensor.element_size()])


def expect_bits(clause: str, reason: str, got: Tensor, expected: Tensor, **facts: object) -> None:
    """Raise Violation at the first element whose bits differ."""
    differs = bits(got) != bits(expected)
    if differs.any():
        at = tuple(differs.nonzero()[0].tolist())
        wrong = int(differs.sum())
        raise Violation(
            clause, reason, {**facts, "at": at, "got": got[at].item(), "expected": expected[at].item(), "wrong": wrong}
        )


def expect_envelope(x: Tensor, r: Tensor, t: Tensor, *, k: float, floor: float, **facts: object) -> None:
    """err(X, T) <= k * err(R, T) + floor; err is the root mean square of the error over that of T (float64)."""
    size = max(_rms(t), torch.finfo(torch.float32).tiny)
    got, allowed = _rms(x.double() - t) / size, k * _rms(r.double() - t) / size + floor
    if not got <= allowed:
        raise Violation("SEM-1", "outside_envelope", {**facts, "got": got, "allowed": allowed})


def framed(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device, *, pad: int = 0, written: bool = False
) -> tuple[Tensor, Tensor]:
    """A buffer full of NaN, of a kind of its own where it is to be `written`, and the view of `shape` inside it: a row
    before and after, `pad` columns at the end."""
    rows, *middle, columns = shape
    buffer = torch.full((rows + 2, *middle, columns + pad), math.nan, dtype=dtype, device=device)
    if written:
        buffer.view(_BITS[dtype.itemsize]).fill_(_POISON[dtype])
    return buffer, buffer[1:-1, ..., :columns]


def generator(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def integers(shape: Sequence[int], seed: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Values of -2, -1, 1, 2: sums of products of up to 2**22 of them are exact in float32, in any order."""
    draw = torch.randint(0, 4, tuple(shape), generator=generator(seed, device), device=device)
    return torch.tensor([-2, -1, 1, 2], dtype=dtype, device=device)[draw]


def normals(shape: Sequence[int], seed: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.randn(tuple(shape), generator=generator(seed, device), device=device).to(dtype)


def eighths(rows: int, seed: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.randint(0, 9, (rows,), generator=generator(seed, device), device=device).to(dtype) / 8


def shuffled(rows: int, seed: int) -> list[int]:
    """All row numbers, in an order drawn from the seed."""
    return torch.randperm(rows, generator=generator(seed, torch.device("cpu"))).tolist()


def make_span(rows: Sequence[int], start: int, stop: int, device: torch.device) -> Span:
    """A span whose capacity is all of `rows`; the entries outside it are rows that must not be touched."""
    offsets = torch.tensor([start, stop], dtype=torch.int32, device=device)
    return Span(rows=torch.tensor(rows, dtype=torch.int32, device=device), start=offsets[0], stop=offsets[1])


def _rms(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0
