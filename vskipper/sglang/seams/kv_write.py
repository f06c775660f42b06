"""Where a forward pass's KV pool and attention backend are found, and what the pool's writer takes as location."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor


def write_kv(attention: Any, forward_batch: Any, k: Tensor, v: Tensor) -> None:
    """Write k and v [rows, kv heads, head dim] of layer module `attention` to the rows' slots, as the engine does."""
    pool = kv_pool(forward_batch)
    # the pool divides what it is given by a scale where it lies
    k, v = (x if scale is None else x.clone() for x, scale in ((k, attention.k_scale), (v, attention.v_scale)))
    pool.set_kv_buffer(attention, _location(forward_batch), k, v, attention.k_scale, attention.v_scale)


def kv_pool(forward_batch: Any) -> Any:
    """The pool of the pass: of the forward context where there is one, else the batch's own."""
    return forward_batch.token_to_kv_pool if _context() is None else _context().get_token_to_kv_pool()


def attention_backend(forward_batch: Any) -> Any:
    """The backend that attends in this decode pass."""
    return decode_side(forward_batch.attn_backend if _context() is None else _context().get_attn_backend())


def decode_side(backend: Any) -> Any:
    """The backend that attends in decode, where prefill has one of its own."""
    inner = getattr(backend, "decode_backend", None)
    # FlashInfer's has the name of a kernel there
    return inner if hasattr(inner, "forward_decode") else backend


def _location(forward_batch: Any) -> Any:
    """The slots, wrapped where the pool asks whether they are physical."""
    location = _write_location()
    return forward_batch.out_cache_loc if location is None else location.for_batch(forward_batch)


@cache
def _context() -> Any:
    try:
        from sglang.srt.model_executor import forward_context
    except ImportError:
        return None
    return forward_context


@cache
def _write_location() -> Any:
    from sglang.srt.mem_cache import memory_pool

    found = getattr(memory_pool, "KVWriteLoc", None)
    return found if hasattr(found, "for_batch") else None
