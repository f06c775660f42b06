"""Faults of the engine's allocator and of its request table: clause LIFE-2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.faults.lifecycle.make import lifecycle_fault


def _freed_twice(original: Any) -> Any:
    """The first slot of what is freed is freed once more."""

    def broken(self: Any, slots: Tensor) -> None:
        original(self, slots)
        original(self, slots[:1])

    return broken


def _last_lost(original: Any) -> Any:
    """Of several slots the last one never comes back."""

    def broken(self: Any, slots: Tensor) -> None:
        original(self, slots[:-1] if slots.numel() > 1 else slots)

    return broken


def _first_kept(original: Any) -> Any:
    """The first slot handed out stays on the list."""

    def broken(self: Any, *arguments: Any) -> Any:
        slots = original(self, *arguments)
        if slots is not None and slots.numel():
            self.free_pages = torch.cat((self.free_pages, slots[:1]))
        return slots

    return broken


def _page_dropped(original: Any) -> Any:
    """With the pages that decoding needs, one that nobody gets is taken off the list."""

    def broken(self: Any, *arguments: Any) -> Any:
        before = len(self.free_pages)
        slots = original(self, *arguments)
        if len(self.free_pages) < before:
            self.free_pages = self.free_pages[1:]
        return slots

    return broken


def _row_freed_twice(original: Any) -> Any:
    """A row of the request table is free twice, so that two requests get it."""

    def broken(self: Any, request: Any) -> None:
        before = set(self.free_slots)
        original(self, request)
        self.free_slots.extend(set(self.free_slots) - before)

    return broken


CLASSES = "conformance.faults.lifecycle.classes"
TOKENS = f"{CLASSES}:TokenToKVPoolAllocator"
PAGES = f"{CLASSES}:PagedTokenToKVPoolAllocator"
QUIET = ("cache.private",)
FAULTS = (
    lifecycle_fault(
        id="slot-freed-twice",
        title="a slot is freed twice",
        source="FreeToken#204",
        seam=f"{TOKENS}.free",
        patch=_freed_twice,
        killer="life.slots",
        reason="in_two_places",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="slot-lost",
        title="the last of several freed slots is lost",
        source="sglang#31616",
        seam=f"{TOKENS}.free",
        patch=_last_lost,
        killer="life.slots",
        reason="lost_page",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="slot-handed-out-and-kept",
        title="a slot that is handed out stays on the list of free ones",
        source="mllm#688",
        seam=f"{TOKENS}.alloc",
        patch=_first_kept,
        killer="life.slots",
        reason="in_two_places",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="page-dropped",
        title="a request that needs another page takes two and holds one",
        source="sglang#4977",
        seam=f"{PAGES}.alloc_decode",
        patch=_page_dropped,
        killer="life.slots",
        reason="lost_page",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="table-row-freed-twice",
        title="two requests share a row of the request table",
        source="sglang#18744",
        seam=f"{CLASSES}:ReqToTokenPool.free",
        patch=_row_freed_twice,
        killer="life.slots",
        reason="row_of_two_requests",
        quiet=QUIET,
    ),
)
