"""KV-1 in a large pool: slots whose place in memory is no number of 32 bits are written and read as any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hypothesis import strategies as st

from properties.case import ScheduleCase
from properties.codec import case_type
from properties.contexts import place_contexts
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import check_equal, decoded, opened_graphs
from properties.property import Property, Subject
from properties.runtime import Model

CLAUSE = "KV-1"
# bytes into K or V of a layer: signed and unsigned numbers end there
BOUNDARIES: Final = (2**31, 2**32)
SEEN: Final = ("past_signed", "past_unsigned")


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class FarCase:
    """boundary: an index of BOUNDARIES. before: how many pages before it the case's pages begin."""

    graph: GraphCase
    boundary: int
    before: int


@st.composite
def far_cases(draw: st.DrawFn, subject: Subject) -> FarCase:
    graph = draw(graph_cases(subject, steps=2))
    return FarCase(
        graph=graph,
        boundary=draw(st.integers(0, len(BOUNDARIES) - 1)),
        before=draw(st.integers(0, graph.schedule.layout.pages // 2)),
    )


def row_bytes(model: Model) -> int:
    """Of one slot's K, or V, in a layer."""
    return model.config.num_key_value_heads * model.config.head_dim * model.dtype.itemsize


def moved(schedule: ScheduleCase, pages: int) -> ScheduleCase:
    """The same passes, every page so many further on."""

    def beyond(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number + pages for number in numbers)

    steps = tuple(
        replace(step, chunks=tuple(replace(chunk, pages=beyond(chunk.pages)) for chunk in step.chunks))
        for step in schedule.steps
    )
    return replace(
        schedule,
        layout=replace(schedule.layout, pages=schedule.layout.pages + pages),
        steps=steps,
        contexts=tuple(replace(context, pages=beyond(context.pages)) for context in schedule.contexts),
    )


def check(subject: Subject, case: FarCase) -> None:
    """Each pass in the pool's first pages, then all of them again further on: the same bits."""
    near, bytes_a_slot = case.graph, row_bytes(subject.model)
    page_bytes = bytes_a_slot * near.schedule.layout.page_size
    first = BOUNDARIES[case.boundary] // page_bytes - case.before
    far = replace(near, schedule=moved(near.schedule, first))
    slots = max(BOUNDARIES) // bytes_a_slot + 2 * near.schedule.layout.slots
    with opened_graphs(subject, near, slots=slots) as session:
        expected = []
        for step in range(len(near.schedule.steps)):
            place_contexts(session.kv, near.schedule, near.schedule.layout, step)
            expected.append(decoded(session, near, step))
        for step, wanted in enumerate(expected):
            place_contexts(session.kv, far.schedule, far.schedule.layout, step)
            check_equal(CLAUSE, "far_slots_differ", step, decoded(session, far, step), wanted)
            beyond = [row for row in far.schedule.rows(step) if row.slot * bytes_a_slot >= BOUNDARIES[case.boundary]]
            subject.seen[SEEN[case.boundary]] += len(beyond)


def _lacks(subject: Subject) -> str | None:
    return None if subject.runtime.capabilities.kv_bytes > max(BOUNDARIES) else "kv_bytes"


GRAPH_FAR = Property(
    id="graph.far",
    clause=CLAUSE,
    title="slots that lie further than 32 bits reach are written and read as any other",
    cases=far_cases,
    check=check,
    counters=SEEN,
    examples=6,
    unsupported=_lacks,
)
