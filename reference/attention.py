"""Attention of one query row over the keys and values of its context, with grouped query heads."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.norm import wide


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k / sqrt(head_dim)) v, head by head, in float64 for float64 and else in float32.

    q: [heads, head_dim]. k, v: [context, kv_heads, head_dim]; query head i reads kv head i // (heads / kv_heads).
    Returns [heads, head_dim] in q's dtype.
    """
    heads, head_dim = q.shape
    group = heads // k.shape[1]
    wider = wide(q.dtype)
    out = torch.empty_like(q)
    for head in range(heads):
        keys, values = k[:, head // group].to(wider), v[:, head // group].to(wider)
        scores = keys @ q[head].to(wider) / head_dim**0.5
        out[head] = (torch.softmax(scores, dim=0) @ values).to(q.dtype)
    return out
