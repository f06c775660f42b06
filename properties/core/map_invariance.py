"""MAP-3: results do not depend on the order of rows, on where pages lie, or on who else is in the batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.alone import alone
from properties.batch import Bounds, bounds_of, lay_out, schedules, scripts
from properties.case import ScheduleCase, chunk_rows, reorder
from properties.codec import case_type
from properties.drive import run
from properties.layout import ARRANGEMENTS, placements
from properties.oracle import Answer, oracle_of
from properties.property import Property, Subject
from properties.tape import tapes
from properties.views import check_invariant, view_of_run, views_of_oracle


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCase:
    """turns[i]: how far the chunks of pass i are rotated; never by a whole turn where there are two or more."""

    schedule: ScheduleCase
    turns: tuple[int, ...]


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCase:
    """The same passes on two pools."""

    schedule: ScheduleCase
    other: ScheduleCase


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class NeedleCase:
    """needle: which of the schedule's requests is run alone."""

    schedule: ScheduleCase
    needle: int


def _bounds(subject: Subject) -> Bounds:
    bounds = bounds_of(subject.model, subject.runtime.capabilities)
    return replace(bounds, chunk=3, decodes=1, steps=2)


@st.composite
def order_cases(draw: DrawFn, subject: Subject) -> OrderCase:
    schedule = draw(schedules(replace(_bounds(subject), requests=(2, 3))))
    turns = [draw(st.integers(1, max(1, len(step.chunks) - 1))) for step in schedule.steps]
    return OrderCase(schedule=schedule, turns=tuple(turns))


def check_order(subject: Subject, case: OrderCase) -> None:
    schedule = case.schedule
    moved = [
        _rotated(step, turn) for step, turn in zip([len(s.chunks) for s in schedule.steps], case.turns, strict=True)
    ]
    changed = [reorder(*each) for each in zip(schedule.steps, schedule.tapes, moved, strict=True)]
    other = replace(schedule, steps=tuple(c[0] for c in changed), tapes=tuple(c[1] for c in changed))
    answer = oracle_of(subject).answer(schedule)
    base, turned = run(subject, schedule), run(subject, other)
    for step, order in enumerate(moved):
        rows, new_rows = chunk_rows(schedule.steps[step]), chunk_rows(other.steps[step])
        for place, chunk in enumerate(order):
            got = view_of_run(turned[step], other.layout, subject.model.dtype, place, new_rows[place])
            expected = view_of_run(base[step], schedule.layout, subject.model.dtype, chunk, rows[chunk])
            oracle = views_of_oracle(answer, step, chunk, rows[chunk])
            where = {"step": step, "request": schedule.steps[step].chunks[chunk].request}
            check_invariant(subject, "MAP-3", "row_order_changes_result", where, (got, expected), oracle)
            subject.seen["moved_chunks"] += place != chunk
        in_place = turned[step].result.logits, base[step].result.logits
        subject.seen["differs_in_place"] += bool((in_place[0] != in_place[1]).any())


def _rotated(count: int, turn: int) -> tuple[int, ...]:
    return tuple((i + turn) % count for i in range(count))


@st.composite
def layout_cases(draw: DrawFn, subject: Subject) -> LayoutCase:
    bounds = _bounds(subject)
    # far from contiguous: even a few examples then reach high slot numbers
    first, second = draw(placements(bounds.page_sizes)), draw(placements(bounds.page_sizes, ARRANGEMENTS[::-1]))
    # what is shared depends on the page size, so nothing is
    lives = [
        replace(life, shares=False) for life in draw(st.lists(scripts(bounds, first.page_size), min_size=1, max_size=3))
    ]
    orders = draw(st.lists(st.integers(0, 5), min_size=bounds.steps, max_size=bounds.steps))
    seed = draw(st.integers(0, 15))
    one, two = (
        lay_out(lives, place, orders=orders, steps=bounds.steps, seed=seed, vocab=bounds.vocab)
        for place in (first, second)
    )
    routes = tuple(draw(tapes(bounds.routed, step.rows, bounds.actions)) for step in one.steps)
    return LayoutCase(schedule=replace(one, tapes=routes), other=replace(two, tapes=routes))


def check_layout(subject: Subject, case: LayoutCase) -> None:
    one, two = case.schedule, case.other
    answer = oracle_of(subject).answer(one)
    base, moved = run(subject, one), run(subject, two)
    for step, plan in enumerate(one.steps):
        for chunk, rows in enumerate(chunk_rows(plan)):
            got = view_of_run(moved[step], two.layout, subject.model.dtype, chunk, rows)
            expected = view_of_run(base[step], one.layout, subject.model.dtype, chunk, rows)
            oracle = views_of_oracle(answer, step, chunk, rows)
            where = {"step": step, "request": plan.chunks[chunk].request, "page_size": two.layout.page_size}
            check_invariant(subject, "MAP-3", "layout_changes_result", where, (got, expected), oracle)
        subject.seen["moved_slots"] += sum(
            a.slot != b.slot for a, b in zip(one.rows(step), two.rows(step), strict=True)
        )
        subject.seen["high_slots"] += sum(row.slot > 255 for row in two.rows(step))
    subject.seen["page_sizes_differ"] += one.layout.page_size != two.layout.page_size


@st.composite
def needle_cases(draw: DrawFn, subject: Subject) -> NeedleCase:
    schedule = draw(schedules(replace(_bounds(subject), requests=(2, 3))))
    return NeedleCase(schedule=schedule, needle=draw(st.integers(0, len(schedule.requests) - 1)))


def check_batch(subject: Subject, case: NeedleCase) -> None:
    schedule = case.schedule
    request = schedule.requests[case.needle]
    single = alone(schedule, request)
    answer: Answer = oracle_of(subject).answer(single.case)
    crowd, quiet = run(subject, schedule), run(subject, single.case)
    for number, step in enumerate(single.steps):
        place = single.chunk(number)
        if place is None:
            continue
        chunk = [c.request for c in schedule.steps[step].chunks].index(request)
        rows, own = chunk_rows(schedule.steps[step])[chunk], chunk_rows(single.case.steps[number])[place]
        got = view_of_run(crowd[step], schedule.layout, subject.model.dtype, chunk, rows)
        expected = view_of_run(quiet[number], schedule.layout, subject.model.dtype, place, own)
        oracle = views_of_oracle(answer, number, place, own)
        where = {"step": step, "request": request}
        check_invariant(subject, "MAP-3", "batch_changes_result", where, (got, expected), oracle)
        subject.seen["neighbours"] += len(schedule.steps[step].chunks) - len(single.case.steps[number].chunks)
        subject.seen["compared_rows"] += len(rows)


MAP_ROW_ORDER = Property(
    id="map.row_order",
    clause="MAP-3",
    title="chunks in another order give the same results, row by row",
    cases=order_cases,
    check=check_order,
    counters=("moved_chunks", "differs_in_place"),
    compares="margin",
    examples=40,
)
MAP_LAYOUT = Property(
    id="map.layout",
    clause="MAP-3",
    title="page size, page order and slot numbers change no result",
    cases=layout_cases,
    check=check_layout,
    counters=("moved_slots",),
    compares="margin",
    examples=40,
)
MAP_BATCH = Property(
    id="map.batch",
    clause="MAP-3",
    title="a request gives in a crowd what it gives alone",
    cases=needle_cases,
    check=check_batch,
    counters=("neighbours", "compared_rows"),
    compares="margin",
    examples=40,
)
