"""Keeping what a request computes out of the prefix cache, while it goes on using what it holds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import torch

from vskipper.sglang.seams.wrap import MARK, rewrap

ENGINE: Final = "sglang."
FUNCTION: Final = "maybe_cache_unfinished_req"


def keep_private(request: Any) -> None:
    """Nothing more of this request is inserted."""
    request.skip_radix_cache_insert = True


def install() -> None:
    """An engine that skips the insertion of a chunk must still go on after it; those that insert chunks by
    maybe_cache_unfinished_req forget to, newer ones do not have it."""
    from sglang.srt.mem_cache import common

    original = getattr(common, FUNCTION, None)
    if original is None or hasattr(original, MARK):
        return
    # others have imported it by its name
    importing = [module for name, module in sys.modules.items() if name.startswith(ENGINE)]
    for module in importing:
        if vars(module).get(FUNCTION) is original:
            rewrap(module, FUNCTION, _insert_chunk)


def _insert_chunk(
    original: Callable[..., None], request: Any, tree_cache: Any, *arguments: Any, **keywords: Any
) -> None:
    if not request.skip_radix_cache_insert:
        original(request, tree_cache, *arguments, **keywords)
        return
    filled = request.get_fill_ids() if hasattr(request, "get_fill_ids") else request.fill_ids
    # newer engines keep the row's number in a record of the request's KV
    holder = request if hasattr(request, "req_pool_idx") else request.kv
    slots = tree_cache.req_to_token_pool.req_to_token[holder.req_pool_idx, : len(filled)]
    request.prefix_indices = slots.to(dtype=torch.int64, copy=True)
