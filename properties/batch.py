"""Strategies for schedules: ragged and chunked prefill, decode, mixed passes; requests that come, move and leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from properties.case import Context, ScheduleCase
from properties.layout import Pages, Placement, placements
from properties.runtime import Model, RuntimeCapabilities
from properties.tape import tapes
from reference.plan import Chunk, Fill, PoolLayout, StepPlan

FILLS: tuple[Fill, ...] = ("zero", "nan", "inf", "old")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How large a schedule may get, and what the subject allows in it."""

    vocab: int
    routed: int
    page_sizes: tuple[int, ...] = (1, 16, 64)
    actions: frozenset[int] = frozenset({0, 1, 2, 3})
    requests: tuple[int, int] = (1, 3)
    chunk: int = 4
    chunks: int = 2
    decodes: int = 2
    steps: int = 3
    padding: int = 0
    fills: tuple[Fill, ...] = FILLS
    contexts: bool = True
    shares: bool = True
    latest_arrival: int = 1


def bounds_of(model: Model, capabilities: RuntimeCapabilities) -> Bounds:
    """The default sizes for a model on a runtime."""
    return Bounds(
        vocab=model.config.vocab_size,
        routed=len(model.routed_layers),
        page_sizes=capabilities.page_sizes,
        actions=capabilities.actions,
        fills=capabilities.fills,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One request's life. context: positions it enters with. chunks: rows of each pass. shares: its context is the full
    pages of the request before it, where that one is still there."""

    context: int
    chunks: tuple[int, ...]
    arrival: int
    shares: bool

    @property
    def total(self) -> int:
        return self.context + sum(self.chunks)


@st.composite
def scripts(draw: st.DrawFn, bounds: Bounds, page_size: int) -> Script:
    """Short lives that often end, or begin, at a page's edge."""
    prefill = draw(st.lists(st.integers(1, bounds.chunk), max_size=bounds.chunks))
    decodes = draw(st.integers(0 if prefill else 1, bounds.decodes))
    chunks = (*prefill, *(1,) * decodes)
    context = draw(_contexts(sum(chunks), page_size)) if bounds.contexts else 0
    return Script(
        context=context if prefill or context else 1,
        chunks=chunks,
        arrival=draw(st.integers(0, bounds.latest_arrival)),
        shares=bounds.shares and draw(st.booleans()),
    )


def _contexts(new: int, page_size: int) -> st.SearchStrategy[int]:
    """Half of them such that the first or the last of `new` rows ends a page, most others such that it lies beside a
    page's edge."""
    ends = {max(0, page_size - row) for row in (1, new)}
    edges = {max(0, edge + step - part) for edge in (page_size, 16) for step in (-1, 0, 1) for part in (0, new)}
    return st.one_of(st.sampled_from(sorted(ends)), st.sampled_from(sorted({0, 1, 2, 5} | edges)))


def token(seed: int, request: int, position: int, vocab: int) -> int:
    """The token at a place, the same whatever else is in the case."""
    return (seed * 7919 + request * 104729 + position * 31 + position * position * 17) % vocab


@st.composite
def schedules(draw: st.DrawFn, bounds: Bounds, layout: PoolLayout | None = None) -> ScheduleCase:
    """Whole cases within `bounds`; `layout` gives KV dtype and scales, its size is drawn."""
    placement = draw(placements(bounds.page_sizes))
    lives = draw(
        st.lists(scripts(bounds, placement.page_size), min_size=bounds.requests[0], max_size=bounds.requests[1])
    )
    orders = draw(st.lists(st.integers(0, 5), min_size=bounds.steps, max_size=bounds.steps))
    seed = draw(st.integers(0, 15))
    case = lay_out(lives, placement, orders=orders, steps=bounds.steps, seed=seed, vocab=bounds.vocab)
    steps = tuple(_pad(draw, step, bounds) for step in case.steps)
    routes = tuple(draw(tapes(bounds.routed, step.rows, bounds.actions)) for step in steps)
    pool = case.layout
    if layout is not None:
        pool = replace(layout, page_size=pool.page_size, pages=pool.pages)
    return replace(case, steps=steps, tapes=routes, layout=pool)


def _pad(draw: st.DrawFn, step: StepPlan, bounds: Bounds) -> StepPlan:
    padding = draw(st.integers(0, bounds.padding)) if bounds.padding else 0
    return replace(step, padding=padding, fill=draw(st.sampled_from(bounds.fills)) if padding else "zero")


@dataclass(slots=True)
class _Live:
    name: str
    script: Script
    index: int
    pages: tuple[int, ...]
    position: int
    done: int = 0

    def next_chunk(self, seed: int, vocab: int) -> Chunk:
        rows = self.script.chunks[self.done]
        chunk = Chunk(
            request=self.name,
            tokens=tuple(token(seed, self.index, self.position + i, vocab) for i in range(rows)),
            start=self.position,
            pages=self.pages,
            phase="decode" if rows == 1 and self.position > 0 else "prefill",
        )
        self.position += rows
        self.done += 1
        return chunk


def lay_out(
    lives: Sequence[Script], placement: Placement, *, orders: Sequence[int], steps: int, seed: int, vocab: int
) -> ScheduleCase:
    """Turn scripts into passes and page tables. Request i is called r<i>; a pass runs the next chunk of every request
    that is there, in the order orders[pass] numbers; one that is done leaves its pages to those that come later.
    """
    pages = Pages(placement, sum(math.ceil(life.total / placement.page_size) for life in lives))
    live: list[_Live] = []
    contexts: list[Context] = []
    plans: list[StepPlan] = []
    waiting = list(enumerate(lives))
    while (live or waiting) and len(plans) < steps:
        # with nobody there, the next one comes early rather than an empty pass
        due = [life for life in waiting if life[1].arrival <= len(plans)] or ([] if live else waiting[:1])
        waiting = [life for life in waiting if life not in due]
        for index, script in due:
            _admit(live, contexts, pages, script, index, len(plans))
        order = _permutation(len(live), orders[len(plans)])
        plans.append(StepPlan(chunks=tuple(live[i].next_chunk(seed, vocab) for i in order)))
        for gone in [request for request in live if request.done == len(request.script.chunks)]:
            pages.release(gone.pages)
            live.remove(gone)
    layout = PoolLayout(page_size=placement.page_size, pages=pages.pages)
    return ScheduleCase(layout=layout, steps=tuple(plans), tapes=(), contexts=tuple(contexts), seed=seed)


def _admit(live: list[_Live], contexts: list[Context], pages: Pages, script: Script, index: int, step: int) -> None:
    size = pages.placement.page_size
    donor = live[-1] if live and script.shares else None
    # only what the donor wrote in earlier passes, and whole pages of it
    shared = donor.position // size if donor else 0
    if donor and shared:
        context, table = shared * size, donor.pages[:shared]
        pages.hold(table)
    else:
        context, table = script.context, ()
    table += pages.take(math.ceil((context + sum(script.chunks)) / size) - len(table))
    name = f"r{index}"
    live.append(_Live(name=name, script=script, index=index, pages=table, position=context))
    if context and not shared:
        contexts.append(Context(request=name, length=context, pages=table, step=step))


def _permutation(count: int, number: int) -> tuple[int, ...]:
    """The number-th order of 0 .. count - 1; number 0 changes nothing."""
    left, order = list(range(count)), []
    while left:
        number, place = divmod(number, len(left))
        order.append(left.pop(place))
    return tuple(order)
