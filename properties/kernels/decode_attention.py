"""Checks of masked paged-decode attention: needles found exactly, masked rows exactly zero, bits of a row its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from properties.kernels.judge import expect_bits, expect_envelope, framed, generator, integers, normals, shuffled
from reference.decode_attention import paged_decode as twin

Decode = Callable[..., None]
_NEEDLE = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeCase:
    """One query a row: its context length, action code and validity. Contexts lie in shuffled slots of a pool whose
    other slots are NaN; rows that do not attend point at those."""

    lengths: tuple[int, ...]
    actions: tuple[int, ...]
    valid: tuple[bool, ...]
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    dtype: torch.dtype = torch.float32
    kv_dtype: torch.dtype | None = None
    index_dtype: torch.dtype = torch.int64
    k_scale: float = 1.0
    v_scale: float = 1.0
    seed: int = 0

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @property
    def slots(self) -> int:
        return sum(self.lengths) + 3

    def attends(self, row: int) -> bool:
        return self.valid[row] and bool(self.actions[row] & 1)

    def contexts(self) -> list[list[int]]:
        """Slots of each row, in order of position; slot 0 belongs to nobody."""
        free = iter(slot for slot in shuffled(self.slots, self.seed) if slot)
        return [[next(free) if self.attends(row) else 0 for _ in range(n)] for row, n in enumerate(self.lengths)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """K and V of one layer, NaN in slots that nobody owns, and the queries."""

    q: Tensor
    k: Tensor
    v: Tensor

    def wide(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """K and V, exactly, in a dtype that every torch operator takes."""
        return self.k.to(dtype), self.v.to(dtype)


def check_needles(case: DecodeCase, device: torch.device, decode: Decode) -> None:
    """Each head finds one position, whose weight is exactly 1: the output is that V, bit for bit; masked rows are 0."""
    pool = _needle_pool(case, device)
    buffer, out = framed(pool.q.shape, case.dtype, device, written=True)
    expected = buffer.clone()
    scales: dict[str, Any] = {"softmax_scale": 1.0, "k_scale": case.k_scale, "v_scale": case.v_scale}
    twin(pool.q, *pool.wide(torch.float32), case.contexts(), case.actions, case.valid, expected[1:-1], **scales)
    _decode(case, pool, out, device, decode, 1.0)
    expect_bits("SEM-2", "attention_rows_differ", buffer, expected, case=case)


def check_decode_envelope(case: DecodeCase, device: torch.device, decode: Decode) -> None:
    """On real numbers: no further from float64 than the twin in the same dtype, within a small factor."""
    pool = _random_pool(case, device)
    got, r = torch.empty_like(pool.q), torch.empty_like(pool.q)
    t = torch.empty_like(pool.q, dtype=torch.float64)
    scale = case.head_dim**-0.5
    _decode(case, pool, got, device, decode, scale)
    for q, out in ((pool.q, r), (pool.q.double(), t)):
        scales: dict[str, Any] = {"softmax_scale": scale, "k_scale": case.k_scale, "v_scale": case.v_scale}
        twin(q, *pool.wide(out.dtype), case.contexts(), case.actions, case.valid, out, **scales)
    expect_envelope(got, r, t, k=2.5, floor=2.0**-20, case=case)


def check_decode_invariance(case: DecodeCase, device: torch.device, decode: Decode) -> None:
    """A row's bits do not depend on slot numbers, nor on the other rows, their number, order or actions."""
    pool = _random_pool(case, device)
    expected = torch.empty_like(pool.q)
    _decode(case, pool, expected, device, decode, case.head_dim**-0.5)
    order = shuffled(case.rows, case.seed + 11)[: max(1, case.rows - 1)]
    other = replace(
        case,
        lengths=tuple(case.lengths[row] for row in order),
        actions=tuple(case.actions[row] ^ 2 for row in order),
        valid=tuple(case.valid[row] for row in order),
        seed=case.seed + 12,
    )
    k, v = (_empty(other, device) for _ in range(2))
    for row, (old, new) in enumerate(zip((case.contexts()[row] for row in order), other.contexts(), strict=True)):
        if other.attends(row):
            for target, source in zip((k, v), pool.wide(torch.float32), strict=True):
                target[new] = source[old]
    moved = Pool(q=pool.q[order], k=_stored(other, k), v=_stored(other, v))
    got = torch.empty_like(moved.q)
    _decode(other, moved, got, device, decode, case.head_dim**-0.5)
    expect_bits("MAP-3", "row_depends_on_others", got, expected[order], case=other)


def _decode(
    case: DecodeCase, pool: Pool, out: Tensor, device: torch.device, decode: Decode, softmax_scale: float
) -> None:
    flat = [slot for context in case.contexts() for slot in context]
    ends = torch.tensor((0, *case.lengths)).cumsum(0).to(torch.int32).to(device)
    decode(
        pool.q,
        pool.k,
        pool.v,
        ends,
        torch.tensor(flat, dtype=case.index_dtype, device=device),
        torch.tensor(case.actions, dtype=torch.uint8, device=device),
        torch.tensor(case.valid, dtype=torch.bool, device=device),
        out,
        softmax_scale=softmax_scale,
        k_scale=case.k_scale,
        v_scale=case.v_scale,
    )


def _empty(case: DecodeCase, device: torch.device) -> Tensor:
    return torch.full((case.slots, case.kv_heads, case.head_dim), math.nan, device=device)


def _stored(case: DecodeCase, values: Tensor) -> Tensor:
    """As the pool holds them, with a stride between heads that is not the head's size."""
    return torch.nn.functional.pad(values, (0, 16), value=math.nan).to(case.kv_dtype or case.dtype)[
        ..., : case.head_dim
    ]


def _needle_pool(case: DecodeCase, device: torch.device) -> Pool:
    k, v = (_empty(case, device) for _ in range(2))
    draw = generator(case.seed, torch.device("cpu"))
    for row, context in enumerate(case.contexts()):
        if not case.attends(row):
            continue
        k[context] = 0.0
        v[context] = integers((len(context), *v.shape[1:]), case.seed + row, v.dtype, device)
        for head in range(case.kv_heads):
            ends = torch.randperm(len(context), generator=draw)[:2].tolist()
            for at, sign in zip(ends, (1.0, -1.0), strict=False):
                k[context[at], head] = sign * _NEEDLE
    # even heads look along the first needle, odd heads along the second, which points the other way
    signs = 1.0 - 2.0 * (torch.arange(case.heads, device=device) % 2)
    q = signs[None, :, None].expand(case.rows, case.heads, case.head_dim).to(case.dtype).contiguous()
    _poison_masked(case, q)
    return Pool(q=q, k=_stored(case, k), v=_stored(case, v))


def _random_pool(case: DecodeCase, device: torch.device) -> Pool:
    k, v = (_empty(case, device) for _ in range(2))
    for row, context in enumerate(case.contexts()):
        if case.attends(row):
            shape = (len(context), case.kv_heads, case.head_dim)
            k[context] = normals(shape, case.seed + 100 + row, k.dtype, device)
            v[context] = normals(shape, case.seed + 900 + row, v.dtype, device)
    q = normals((case.rows, case.heads, case.head_dim), case.seed, case.dtype, device)
    _poison_masked(case, q)
    return Pool(q=q, k=_stored(case, k), v=_stored(case, v))


def _poison_masked(case: DecodeCase, q: Tensor) -> None:
    for row in range(case.rows):
        if not case.attends(row):
            q[row] = math.nan
