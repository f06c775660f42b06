"""Faults of when K and V are written, and over what. Clause LIFE-1."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from conformance.faults.lifecycle.make import lifecycle_fault
from vskipper.sglang.seams.kv_write import kv_pool


def _last_row_of_chunk_lost(original: Any) -> Any:
    """The last row of an extend is counted as computed before its K and V are there."""

    def broken(attention: Any, forward_batch: Any, k: Tensor, v: Tensor) -> None:
        rows = k.shape[0]
        original(attention, _to(forward_batch, torch.arange(rows, device=k.device) < max(1, rows - 1)), k, v)

    return broken


def _to(forward_batch: Any, kept: Tensor) -> Any:
    """The batch with rows that are not kept written to the dummy slot."""
    changed = copy(forward_batch)
    changed.out_cache_loc = torch.where(kept, forward_batch.out_cache_loc, 0)
    return changed


def _into_earlier_slots(original: Any) -> Any:
    """Each pass writes its first row a second time, where the pass before last wrote: a request that has ended since
    no longer owns that slot."""
    earlier: list[tuple[Any, Tensor]] = []

    def broken(attention: Any, forward_batch: Any, k: Tensor, v: Tensor) -> None:
        original(attention, forward_batch, k, v)
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            # a graph cannot tell passes apart
            return
        # the engine may reuse the tensor
        pool, slots = kv_pool(forward_batch), forward_batch.out_cache_loc.clone()
        if not earlier or not torch.equal(earlier[-1][1], slots):
            earlier.append((pool, slots))
        if len(earlier) > 2 and earlier[-3][0] is pool:
            late = copy(forward_batch)
            late.out_cache_loc = earlier[-3][1][:1]
            original(attention, late, k[:1], v[:1])

    return broken


def _half_of_a_mixed_pass(original: Any) -> Any:
    """Decode rows that ride along with a chunk are not written."""

    def broken(attention: Any, forward_batch: Any, k: Tensor, v: Tensor) -> None:
        kept = torch.ones(k.shape[0], dtype=torch.bool, device=k.device)
        if not forward_batch.forward_mode.is_decode():
            counts = forward_batch.extend_seq_lens_cpu
            if len(counts) > 1 and max(counts) > 1:
                kept = torch.cat([torch.full((count,), count > 1, device=k.device) for count in counts])
        original(attention, _to(forward_batch, kept), k, v)

    return broken


WRITE = "vskipper.sglang.attention:write_kv"
QUIET = ("life.slots", "cache.private")
FAULTS = (
    lifecycle_fault(
        id="prefix-before-commit",
        title="the last row of a chunk counts as computed without its K and V",
        source="sglang#24275",
        seam=WRITE,
        patch=_last_row_of_chunk_lost,
        killer="life.alone",
        reason="wrong_kv",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="write-after-the-end",
        title="a row is written once more where an earlier pass wrote",
        source="sglang#30093",
        seam=WRITE,
        patch=_into_earlier_slots,
        killer="life.alone",
        reason="wrong_kv",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="mixed-pass-half-written",
        title="decode rows beside a chunk are not written",
        source="sglang#39342",
        seam=WRITE,
        patch=_half_of_a_mixed_pass,
        killer="life.alone",
        reason="wrong_kv",
        quiet=QUIET,
    ),
)
