"""SEM-2 in a captured pass: a row that skips attention reads none of its context's K and V."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from properties.contexts import place_contexts
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import check_equal, decoded, opened_graphs
from properties.pool import Kv, fill_nan
from properties.property import Property, Subject
from reference.action import attention_runs
from reference.plan import Chunk

CLAUSE = "SEM-2"


def check(subject: Subject, case: GraphCase) -> None:
    """Each pass as it is, then with NaN for what the rows that skip attention in a layer have stored there."""
    schedule = case.schedule
    layers = subject.model.routed_layers
    with opened_graphs(subject, case) as session:
        for step, plan in enumerate(schedule.steps):
            place_contexts(session.kv, schedule, schedule.layout, step)
            expected = decoded(session, case, step)
            lines = schedule.tapes[step].actions
            own = [_unread(plan.chunks, line, schedule.layout.page_size) for line in lines]
            unread = {layer: slots for layer, slots in zip(layers, own, strict=True) if slots}
            with _poisoned(session.kv, unread):
                got = decoded(session, case, step)
            check_equal(CLAUSE, "skipped_context_read", step, got, expected)
            subject.seen["poisoned_slots"] += sum(map(len, unread.values()))
            subject.seen["attending_rows"] += sum(attention_runs(action) for line in lines for action in line)


def _unread(chunks: Sequence[Chunk], line: tuple[int, ...], page_size: int) -> list[int]:
    """Slots of the positions before this pass that rows which skip attention have to themselves."""
    used: set[int] = set()
    skipped: set[int] = set()
    for chunk, action in zip(chunks, line, strict=True):
        slots = chunk.context_slots(chunk.start, page_size)
        (used if attention_runs(action) else skipped).update(slots)
    return sorted(skipped - used)


@contextmanager
def _poisoned(kv: Kv, unread: dict[int, list[int]]) -> Iterator[None]:
    """NaN there, by layer; afterwards what was there before."""
    kept: list[tuple[Tensor, list[int], Tensor]] = []
    for layer, slots in unread.items():
        kept += [(tensor, slots, tensor[slots].clone()) for tensor in kv[layer]]
        fill_nan([kv[layer]], slots)
    try:
        yield
    finally:
        for tensor, slots, values in kept:
            tensor[slots] = values


GRAPH_SKIPPED = Property(
    id="graph.skipped",
    clause=CLAUSE,
    title="rows that skip attention in a captured pass read no context",
    cases=graph_cases,
    check=check,
    counters=("poisoned_slots", "attending_rows"),
    examples=30,
)
