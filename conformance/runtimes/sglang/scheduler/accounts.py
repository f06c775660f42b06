"""Who holds which page of the KV pool, read from the scheduler's allocator, its prefix tree and its request table.

What lies on the device is copied there, and read when the loop has ended: a host that waited for it in every iteration
could not run ahead of the passes, as an engine does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from properties.lifecycle.engine import Account

# the allocator's lists of free pages: those to hand out, those given back since, and those held until a group ends
FREE_LISTS = ("free_pages", "release_pages", "staged_pages")
GROUP = "free_group"
GROUP_ENDED = "is_not_in_free_group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One iteration's account, its numbers still on the device, int64: pages on the free lists, slots of the group that
    is being freed, slots in the tree, and slots of each request that has a row in the table."""

    iteration: int
    total: int
    page_size: int
    free: tuple[Tensor, ...]
    group: tuple[Tensor, ...]
    tree: Tensor
    held: Mapping[str, Tensor]
    rows: Mapping[str, int]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.free, *self.group, self.tree, *self.held.values())

    def account(self, numbers: Iterator[list[int]]) -> Account:
        """numbers: what `tensors` hold, in their order."""
        free = [page for _ in self.free for page in next(numbers)]
        free.extend(page for _ in self.group for page in _pages(next(numbers), self.page_size))
        tree = _pages(next(numbers), self.page_size)
        shared = set(tree)
        held = {name: tuple(page for page in self._pages(numbers) if page not in shared) for name in self.held}
        return Account(
            iteration=self.iteration,
            total=self.total,
            free=tuple(free),
            tree=tree,
            held={name: pages for name, pages in held.items() if pages},
            rows=self.rows,
        )

    def _pages(self, numbers: Iterator[list[int]]) -> tuple[int, ...]:
        return _pages(next(numbers), self.page_size)


def snapshot(scheduler: Any, requests: Mapping[str, Any], iteration: int) -> Snapshot:
    """requests: the engine's objects of all requests that may hold KV, by name."""
    allocator = scheduler.token_to_kv_pool_allocator
    rows = {name: row for name, request in requests.items() if (row := pool_row(request)) is not None}
    return Snapshot(
        iteration=iteration,
        total=scheduler.max_total_num_tokens // scheduler.page_size,
        page_size=scheduler.page_size,
        free=tuple(_kept(pages) for pages in _free_lists(allocator)),
        group=tuple(_kept(slots) for slots in _group(allocator)),
        tree=_tree_slots(scheduler.tree_cache, scheduler.req_to_token_pool.req_to_token),
        held={name: slots_of(scheduler, requests[name], _of(requests[name], "kv_allocated_len")) for name in rows},
        rows=rows,
    )


def accounts(snapshots: Sequence[Snapshot]) -> tuple[Account, ...]:
    """All of them, for one transfer from the device."""
    numbers = iter(lists([tensor for each in snapshots for tensor in each.tensors]))
    return tuple(each.account(numbers) for each in snapshots)


def lists(tensors: Sequence[Tensor]) -> list[list[int]]:
    """What int64 tensors of one device hold, for one transfer."""
    if not tensors:
        return []
    numbers = iter(torch.cat([tensor.flatten() for tensor in tensors]).tolist())
    return [[next(numbers) for _ in range(tensor.numel())] for tensor in tensors]


def slots_of(scheduler: Any, request: Any, length: int) -> Tensor:
    """Slots of its positions 0 .. length - 1, a copy on the device; none where it has no row in the table."""
    table = scheduler.req_to_token_pool.req_to_token
    row = pool_row(request)
    return _kept(table[0, :0] if row is None else table[row, :length])


def pool_row(request: Any) -> int | None:
    """Its row in the request table; newer versions keep it with what else it holds."""
    row: int | None = _of(request, "req_pool_idx")
    return row


def _of(request: Any, name: str) -> Any:
    return getattr(request, name) if hasattr(request, name) else getattr(request.kv, name)


def _kept(numbers: Tensor) -> Tensor:
    return numbers.to(torch.int64, copy=True)


def _tree_slots(tree: Any, table: Tensor) -> Tensor:
    # older trees cannot be asked for their values while they have none
    empty = tree.evictable_size() + tree.protected_size() == 0
    return _kept(table[0, :0] if empty else tree.all_values_flatten())


def _free_lists(allocator: Any) -> Iterator[Tensor]:
    for name in FREE_LISTS:
        found = getattr(allocator, name, None)
        yield from found if isinstance(found, list | tuple) else [] if found is None else [found]


def _group(allocator: Any) -> Sequence[Tensor]:
    # older allocators leave the list of the last group behind
    return [] if getattr(allocator, GROUP_ENDED, False) else getattr(allocator, GROUP, None) or []


def _pages(slots: Iterable[int], page_size: int) -> tuple[int, ...]:
    """One number a page and run of its slots: a page that stands twice, not side by side, is there twice."""
    pages: list[int] = []
    for index, slot in enumerate(slots):
        if page_size == 1 or index == 0 or slot // page_size != pages[-1] or slot % page_size == 0:
            pages.append(slot // page_size)
    return tuple(pages)
