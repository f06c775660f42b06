"""Attention of one query a row over its own slots of a KV pool, row by row and head by head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

ATTENTION_BIT = 1


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    contexts: Sequence[Sequence[int]],
    actions: Sequence[int] | Tensor,
    valid: Sequence[bool] | Tensor,
    out: Tensor,
    *,
    softmax_scale: float,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> None:
    """out[row, head] = softmax(softmax_scale * K q) V over the slots contexts[row]; what is stored is value / scale.

    q, out: [rows, heads, head_dim]. k_cache, v_cache: [slots, kv_heads, head_dim]. Computed in float32, or float64
    where q is. A row that is not valid, whose attention bit is clear, or without context is zeros.
    """
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    group = q.shape[1] // k_cache.shape[1]
    for row, context in enumerate(contexts):
        out[row] = 0
        if not bool(valid[row]) or not int(actions[row]) & ATTENTION_BIT or not context:
            continue
        slots = torch.tensor(list(context), dtype=torch.int64, device=q.device)
        for head in range(q.shape[1]):
            keys = k_cache[slots, head // group].to(wide) * k_scale
            values = v_cache[slots, head // group].to(wide) * v_scale
            weights = torch.softmax(keys @ q[row, head].to(wide) * softmax_scale, dim=0)
            out[row, head] = (weights @ values).to(out.dtype)
