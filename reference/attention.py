"""Attention of one query row over the keys and values of its context, with grouped query heads."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.norm import wide


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k / sqrt(head_dim)) v of each head, in float64 for float64 and else in float32.

    q: [heads, head_dim]. k, v: [context, kv_heads, head_dim]; query head i reads kv head i // (heads / kv_heads).
    Returns [heads, head_dim] in q's dtype.
    """
    kv_heads, head_dim = k.shape[1:]
    wider = wide(q.dtype)
    queries, keys, values = q.to(wider).view(kv_heads, -1, head_dim), k.to(wider), v.to(wider)
    scores = torch.einsum("kgd,ckd->kgc", queries, keys) / head_dim**0.5
    mixed = torch.einsum("kgc,ckd->kgd", scores.softmax(dim=-1), values)
    return mixed.reshape(q.shape).to(q.dtype)
