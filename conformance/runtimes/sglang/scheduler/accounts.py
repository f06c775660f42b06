"""Who holds which page of the KV pool, read from the scheduler's allocator, its prefix tree and its request table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from properties.lifecycle.engine import Account

# the allocator's lists of free pages: those to hand out, those given back since, and those held until a group ends
FREE_LISTS = ("free_pages", "release_pages", "staged_pages")
GROUP = "free_group"
GROUP_ENDED = "is_not_in_free_group"


def account(scheduler: Any, requests: Mapping[str, Any], iteration: int) -> Account:
    """requests: the engine's objects of all requests that may hold KV, by name."""
    page_size = scheduler.page_size
    tree = _pages(_tree_slots(scheduler.tree_cache), page_size)
    shared = set(tree)
    held = {name: tuple(p for p in _held(scheduler, request) if p not in shared) for name, request in requests.items()}
    return Account(
        iteration=iteration,
        total=scheduler.max_total_num_tokens // page_size,
        free=_free(scheduler.token_to_kv_pool_allocator, page_size),
        tree=tree,
        held={name: pages for name, pages in held.items() if pages},
        rows={name: row for name, request in requests.items() if (row := pool_row(request)) is not None},
    )


def _tree_slots(tree: Any) -> list[int]:
    if tree.evictable_size() + tree.protected_size() == 0:
        # older trees cannot be asked for their values while they have none
        return []
    slots: list[int] = tree.all_values_flatten().tolist()
    return slots


def slots_of(scheduler: Any, request: Any, length: int) -> list[int]:
    """Slots of its positions 0 .. length - 1; none where it has no row in the table."""
    row = pool_row(request)
    table = scheduler.req_to_token_pool.req_to_token
    slots: list[int] = [] if row is None else table[row, :length].tolist()
    return slots


def pool_row(request: Any) -> int | None:
    """Its row in the request table; newer versions keep it with what else it holds."""
    row: int | None = _kept(request, "req_pool_idx")
    return row


def _kept(request: Any, name: str) -> Any:
    return getattr(request, name) if hasattr(request, name) else getattr(request.kv, name)


def _held(scheduler: Any, request: Any) -> tuple[int, ...]:
    if pool_row(request) is None:
        return ()
    return _pages(slots_of(scheduler, request, _kept(request, "kv_allocated_len")), scheduler.page_size)


def _free(allocator: Any, page_size: int) -> tuple[int, ...]:
    lists: list[Any] = []
    for name in FREE_LISTS:
        kept = getattr(allocator, name, None)
        lists.extend(kept if isinstance(kept, list | tuple) else [] if kept is None else [kept])
    # older allocators leave the list of the last group behind
    waiting = [] if getattr(allocator, GROUP_ENDED, False) else getattr(allocator, GROUP, None) or []
    pages = [page for kept in lists for page in kept.tolist()]
    return (*pages, *(page for slots in waiting for page in _pages(slots.tolist(), page_size)))


def _pages(slots: Iterable[int], page_size: int) -> tuple[int, ...]:
    """One number a page and run of its slots: a page that stands twice, not side by side, is there twice."""
    pages: list[int] = []
    for index, slot in enumerate(slots):
        if page_size == 1 or index == 0 or slot // page_size != pages[-1] or slot % page_size == 0:
            pages.append(slot // page_size)
    return tuple(pages)
