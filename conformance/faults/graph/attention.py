"""Faults of K and V in a captured pass: which rows attend, what they read, and where padding and far rows write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import Remembered, graph_fault
from vskipper.sglang.graphs.buffers import DUMMY_SLOT
from vskipper.sglang.masked_attention import every_row

MASKED = "vskipper.sglang.attention:attend_masked"
WRITE = "vskipper.sglang.attention:write_kv"
# where signed numbers of 32 bits end
SIGNED = 2**31


def _unmasked(original: Any) -> Any:
    def broken(module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, batch: Any) -> Tensor:
        return every_row(module, q, k, v, batch)

    return broken


def _times_zero(original: Any) -> Any:
    def broken(module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, batch: Any) -> Tensor:
        return every_row(module, q, k, v, batch) * runs[:, None].to(q.dtype)

    return broken


def _wrapped(slots: Tensor, cache: Tensor) -> Tensor:
    row = cache[0].numel() * cache.element_size()
    return (slots.long() * row % SIGNED // row).to(slots.dtype)


def _read_wrapped(original: Any) -> Any:
    def broken(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, slots: Tensor, *more: Any, **named: Any) -> None:
        original(q, k, v, starts, _wrapped(slots, k), *more, **named)

    return broken


def _written_to(choose: Callable[[Any, Tensor], Tensor]) -> Any:
    """K and V go to other slots: choose(slots, k)."""

    def patch(original: Any) -> Any:
        def broken(module: Any, batch: Any, k: Tensor, v: Tensor) -> None:
            slots = batch.out_cache_loc
            batch.out_cache_loc = choose(slots, k)
            try:
                original(module, batch, k, v)
            finally:
                batch.out_cache_loc = slots

        return broken

    return patch


def _older() -> Callable[[Tensor, Tensor], Tensor]:
    """For a row of padding the slot of the row of a request that stood there last."""
    last = Remembered()

    def choose(slots: Tensor, k: Tensor) -> Tensor:
        older = last(slots)
        older.copy_(torch.where(slots == DUMMY_SLOT, older, slots))
        return older.clone()

    return choose


FAULTS = (
    graph_fault(
        id="graph-attention-unmasked",
        title="rows that skip attention keep what attention gave them",
        source="a mask that a captured graph does not apply",
        seam=MASKED,
        patch=_unmasked,
        killer="graph.outputs",
        reason="wrong_hidden",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-attention-times-zero",
        title="rows that skip attention are multiplied by zero",
        source="a mask that a number survives and NaN does not",
        seam=MASKED,
        patch=_times_zero,
        killer="graph.skipped",
        reason="skipped_context_read",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-tail-written",
        title="padding rows are written where an earlier, larger batch had rows of requests",
        source="sglang#24743",
        seam=WRITE,
        patch=_written_to(_older()),
        killer="graph.replay",
        reason="foreign_slot_written",
    ),
    graph_fault(
        id="graph-writes-32-bit",
        title="K and V are written where a place of 32 bits wraps to",
        source="vllm#47671",
        seam=WRITE,
        patch=_written_to(_wrapped),
        killer="graph.far",
        reason="far_slots_differ",
        quiet=("graph.still", "graph.padding"),
    ),
    graph_fault(
        id="graph-reads-32-bit",
        title="K and V are read from where a place of 32 bits wraps to",
        source="vllm#47671",
        seam="vskipper.sglang.masked_attention:paged_decode",
        patch=_read_wrapped,
        killer="graph.far",
        reason="far_slots_differ",
        quiet=("graph.still", "graph.padding"),
        # with fa3 the engine's own kernel reads, by lengths that are masked
        backends=("triton", "flashinfer"),
    ),
)
