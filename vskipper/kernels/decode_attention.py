"""Masked paged-decode attention: rows that skip attention come out as exact zeros and read no K or V (clause SEM-2).

Row invariant: one program for a row and KV head walks the context in order in blocks of a fixed size (clause MAP-3).
"""

from __future__ import annotations

import math
from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from vskipper.action import ATTENTION_BIT
from vskipper.kernels import check
from vskipper.kernels.interpreter import device_function, interpreted, kernel
from vskipper.kernels.numerics import narrow, widen

_STORED = (*check.FLOATS, torch.float8_e4m3fn, torch.float8_e5m2)
LARGEST_HEAD: Final = 256


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    actions: Tensor,
    valid: Tensor,
    out: Tensor,
    *,
    softmax_scale: float,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> None:
    """One query a row over its own context: softmax(softmax_scale * q k) v in float32, rounded to the dtype of q.

    q, out: [rows, heads, head_dim]. k_cache, v_cache: [slots, kv_heads, head_dim] of any float dtype, float8 included;
    stored is the value over k_scale or v_scale, and what is loaded is brought to the dtype of q, as are the softmax
    weights before they meet V. Row r's context is the slots kv_indices[kv_indptr[r]:kv_indptr[r + 1]] (int32
    [rows + 1]; int32 or int64), page size 1 form. actions: uint8 [rows], valid: bool [rows]; a row that is not valid,
    or whose attention bit is clear, or without context, is written as zeros. Raises InputError.
    """
    rows, heads, head_dim = _check(q, k_cache, v_cache, kv_indptr, kv_indices, actions, valid, out)
    for name, factor in (("softmax_scale", softmax_scale), ("k_scale", k_scale), ("v_scale", v_scale)):
        check.require(math.isfinite(factor), "bad scale", where=f"paged_decode: {name}", got=factor, expected="finite")
    if rows == 0:
        return
    kv_heads = k_cache.shape[1]
    small = q.dtype != torch.float32 and head_dim <= 128
    _decode_kernel.launch(
        (rows, kv_heads),
        q,
        k_cache,
        v_cache,
        kv_indptr,
        kv_indices,
        actions,
        valid.view(torch.uint8),
        out,
        softmax_scale * k_scale,
        v_scale,
        *q.stride()[:2],
        *k_cache.stride()[:2],
        *v_cache.stride()[:2],
        *out.stride()[:2],
        ATTENTION=ATTENTION_BIT,
        HEADS=heads // kv_heads,
        HEAD_DIM=head_dim,
        INTERPRETED=interpreted(),
        BLOCK_H=max(16, triton.next_power_of_2(heads // kv_heads)),
        BLOCK_D=max(16, triton.next_power_of_2(head_dim)),
        BLOCK_S=128 if interpreted() else 64 if small else 32,
        num_warps=4,
        num_stages=2,
    )


def _check(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    actions: Tensor,
    valid: Tensor,
    out: Tensor,
) -> tuple[int, int, int]:
    where, device = "paged_decode", q.device
    check.check_device(f"{where}: q", device)
    check.check_tensor(f"{where}: q", q, dims=3, dtypes=check.FLOATS, device=device)
    check.check_tensor(f"{where}: out", out, dims=3, dtypes=(q.dtype,), device=device)
    check.check_tensor(f"{where}: k_cache", k_cache, dims=3, dtypes=_STORED, device=device)
    check.check_tensor(f"{where}: v_cache", v_cache, dims=3, dtypes=(k_cache.dtype,), device=device)
    check.check_tensor(f"{where}: kv_indptr", kv_indptr, dims=1, dtypes=(torch.int32,), device=device)
    check.check_tensor(f"{where}: kv_indices", kv_indices, dims=1, dtypes=(torch.int32, torch.int64), device=device)
    check.check_tensor(f"{where}: actions", actions, dims=1, dtypes=(torch.uint8,), device=device)
    check.check_tensor(f"{where}: valid", valid, dims=1, dtypes=(torch.bool,), device=device)
    rows, heads, head_dim = q.shape
    for name, tensor, shape in (("out", out, q.shape), ("v_cache", v_cache, k_cache.shape)):
        check.require(
            tensor.shape == shape,
            "wrong shape",
            where=f"{where}: {name}",
            got=tuple(tensor.shape),
            expected=tuple(shape),
        )
    kv_heads = k_cache.shape[1]
    check.require(
        kv_heads > 0 and heads % kv_heads == 0,
        "heads do not divide among KV heads",
        where=f"{where}: q",
        got=f"{heads} heads, {kv_heads} KV heads",
        expected="a multiple",
    )
    check.require(
        0 < head_dim <= LARGEST_HEAD,
        "head size not served",
        where=f"{where}: q",
        got=head_dim,
        expected=f"1 to {LARGEST_HEAD}",
    )
    check.check_size(f"{where}: k_cache", k_cache, 2, head_dim)
    check.check_size(f"{where}: kv_indptr", kv_indptr, 0, rows + 1)
    check.check_size(f"{where}: actions", actions, 0, rows)
    check.check_size(f"{where}: valid", valid, 0, rows)
    check.check_written(f"{where}: out", out)
    return rows, heads, head_dim


@kernel()
def _decode_kernel(
    q: tl.tensor,
    k_cache: tl.tensor,
    v_cache: tl.tensor,
    kv_indptr: tl.tensor,
    kv_indices: tl.tensor,
    actions: tl.tensor,
    valid: tl.tensor,
    out: tl.tensor,
    score_scale: tl.tensor,
    v_scale: tl.tensor,
    q_row: tl.tensor,
    q_head: tl.tensor,
    k_slot: tl.tensor,
    k_head: tl.tensor,
    v_slot: tl.tensor,
    v_head: tl.tensor,
    out_row: tl.tensor,
    out_head: tl.tensor,
    ATTENTION: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    INTERPRETED: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1).to(tl.int64)
    dim = tl.arange(0, BLOCK_D)
    head = kv_head * HEADS + tl.arange(0, BLOCK_H)
    inside = (tl.arange(0, BLOCK_H) < HEADS)[:, None] & (dim < HEAD_DIM)[None, :]
    query = tl.load(q + row * q_row + head[:, None] * q_head + dim[None, :], mask=inside, other=0)
    begin = tl.load(kv_indptr + row)
    attends = ((tl.load(actions + row) & ATTENTION) != 0) & (tl.load(valid + row) != 0)
    # a row that does not attend has no context: the loop below then reads nothing for it
    length = tl.where(attends, tl.load(kv_indptr + row + 1) - begin, 0)

    best = tl.full([BLOCK_H], float("-inf"), dtype=tl.float32)
    total = tl.full([BLOCK_H], 0.0, dtype=tl.float32)
    acc = tl.full([BLOCK_H, BLOCK_D], 0.0, dtype=tl.float32)
    for base in range(0, length, BLOCK_S):
        step = base + tl.arange(0, BLOCK_S)
        seen = step < length
        slot = tl.load(kv_indices + begin.to(tl.int64) + step, mask=seen, other=0).to(tl.int64)
        k_place = k_cache + slot[None, :] * k_slot + kv_head * k_head + dim[:, None]
        v_place = v_cache + slot[:, None] * v_slot + kv_head * v_head + dim[None, :]
        keys = tl.load(k_place, mask=seen[None, :] & (dim < HEAD_DIM)[:, None], other=0.0)
        values = tl.load(v_place, mask=seen[:, None] & (dim < HEAD_DIM)[None, :], other=0.0)
        scores = _dot(query, keys, query.dtype, INTERPRETED) * score_scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        # the largest that is a number; where there is none the result is NaN below
        new_best = tl.maximum(best, tl.max(tl.where(scores == scores, scores, float("-inf")), axis=1))
        shrink = tl.exp(best - new_best)
        weights = tl.exp(scores - new_best[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        weights = narrow(weights, query.dtype, INTERPRETED)
        acc = acc * shrink[:, None] + _dot(weights, values, query.dtype, INTERPRETED)
        best = new_best

    result = acc / tl.where(total > 0, total, 1.0)[:, None] * v_scale
    place = out + row * out_row + head[:, None] * out_head + dim[None, :]
    tl.store(place, narrow(result, out.dtype.element_ty, INTERPRETED), mask=inside)


@device_function
def _dot(x: tl.tensor, y: tl.tensor, dtype: tl.constexpr, INTERPRETED: tl.constexpr) -> tl.tensor:
    """x @ y in float32; y is brought to `dtype`, that of x, first."""
    if y.dtype != dtype:
        y = narrow(widen(y, INTERPRETED), dtype, INTERPRETED)
    if INTERPRETED:
        result = tl.dot(widen(x, INTERPRETED), widen(y, INTERPRETED))
    else:
        result = tl.dot(x, y, input_precision="ieee")
    return result
