"""A plan unrolled into rows: where each one stands, where its K/V go and which slots it attends over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reference.plan import Chunk, PoolLayout, StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One valid row. context: slots of positions 0 .. position, its own last. last: its chunk ends with it."""

    request: str
    token: int
    position: int
    slot: int
    context: tuple[int, ...]
    last: bool


def rows_of(plan: StepPlan, layout: PoolLayout) -> tuple[Row, ...]:
    """The plan's valid rows, chunk by chunk. Raises ValueError for a plan that no runtime could be asked to run."""
    rows = tuple(row for chunk in plan.chunks for row in _rows(chunk, layout))
    if not rows:
        raise ValueError("plan: got no valid row, expected at least one")
    owners: dict[int, Row] = {}
    for row in rows:
        other = owners.setdefault(row.slot, row)
        if other is not row:
            raise ValueError(
                f"plan, slot {row.slot}: got two owners, {other.request} at {other.position} and {row.request} at "
                f"{row.position}, expected one"
            )
    return rows


def _rows(chunk: Chunk, layout: PoolLayout) -> Iterator[Row]:
    end = chunk.start + len(chunk.tokens)
    _check(chunk, end, layout)
    context = chunk.context_slots(end, layout.page_size)
    for position, token in enumerate(chunk.tokens, start=chunk.start):
        yield Row(
            request=chunk.request,
            token=token,
            position=position,
            slot=context[position],
            context=context[: position + 1],
            last=position == end - 1,
        )


def _check(chunk: Chunk, end: int, layout: PoolLayout) -> None:
    needed = -(-end // layout.page_size)
    used = chunk.pages[:needed]
    for name, got, holds, expected in (
        ("tokens", chunk.tokens, len(chunk.tokens) > 0, "at least one"),
        ("tokens of a decode chunk", chunk.tokens, chunk.phase != "decode" or len(chunk.tokens) == 1, "one"),
        ("start", chunk.start, chunk.start >= 0, "0 or more"),
        ("pages", chunk.pages, len(used) == needed, f"{needed} or more, to hold {end} positions"),
        ("pages", chunk.pages, all(0 < page < layout.pages for page in used), f"numbers of 1 to {layout.pages - 1}"),
        ("pages", chunk.pages, len(set(used)) == len(used), "each page once"),
    ):
        if not holds:
            raise ValueError(f"plan, request {chunk.request}, {name}: got {got}, expected {expected}")
