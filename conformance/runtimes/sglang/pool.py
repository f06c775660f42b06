"""A session's KV pool: one of the runner's own class, put wherever the runner holds its pool."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference.plan import PoolLayout

NAME = "token_to_kv_pool"


def new_pool(like: Any, layout: PoolLayout) -> Any:
    """A pool of `like`'s class and heads for the layout, zero at first. Its slots are numbered as the plan's are: the
    engine adds a page to the size that it is asked for, and page 0 is the dummy one."""
    dtype = getattr(torch, layout.kv_dtype) if layout.kv_dtype else like.dtype
    return type(like)(
        size=layout.slots - layout.page_size,
        page_size=layout.page_size,
        dtype=dtype,
        head_num=like.head_num,
        head_dim=like.head_dim,
        layer_num=like.layer_num,
        device=like.device,
        enable_memory_saver=False,
    )


def place(runner: Any, pool: Any) -> None:
    """Make it the pool of every forward pass to come. The allocator is left alone: nobody asks it, since plans name
    their pages."""
    runner.page_size = pool.page_size
    runner.token_to_kv_pool = pool
    for backend in (runner.attn_backend, getattr(runner, "decode_attn_backend", None)):
        for name, value in ((NAME, pool), ("page_size", pool.page_size)):
            if hasattr(backend, name):
                setattr(backend, name, value)


def raw(pool: Any) -> tuple[tuple[Tensor, Tensor], ...]:
    """The pool's own K and V of each layer, [slots, kv heads, head dim]; what it keeps as bytes, in its dtype."""
    pairs = zip(pool.k_buffer, pool.v_buffer, strict=True)
    return tuple((k.view(pool.dtype), v.view(pool.dtype)) for k, v in pairs)
