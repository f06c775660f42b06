"""SEM-1 and KV-3 where passes are wide, contexts long and sessions old: what small cases cannot reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.batch import Script, bounds_of, lay_out, token
from properties.case import ScheduleCase
from properties.core.kv_values import check_kv
from properties.core.sem import check_result
from properties.drive import run, unscaled
from properties.layout import placements
from properties.oracle import oracle_of
from properties.property import Property, Subject
from properties.tape import Lines, eighths_of
from reference.plan import StepPlan, TapePlan

# two dozen rows in all at least, and past a tile of 64 now and then
REQUESTS: Final = (5, 9)
CHUNK: Final = (5, 20)
DECODES: Final = (4, 8)
CONTEXTS: Final = (0, 3, 63, 64, 255, 256, 300, 513)
FAR: Final = 256
LATE: Final = 4


@st.composite
def wide_cases(draw: DrawFn, subject: Subject) -> ScheduleCase:
    """Many requests, each with one chunk and then decode rows, all there from the first pass on. Routes follow from one
    number."""
    bounds = bounds_of(subject.model, subject.runtime.capabilities)
    placement = draw(placements(bounds.page_sizes))
    lives = draw(st.lists(_scripts(), min_size=REQUESTS[0], max_size=REQUESTS[1]))
    seed = draw(st.integers(0, 15))
    case = lay_out(
        lives, placement, orders=[draw(st.integers(0, 5))] * DECODES[1], steps=DECODES[1], seed=seed, vocab=bounds.vocab
    )
    weighted = draw(st.booleans())
    tapes = tuple(
        _tape(bounds.routed, plan, sorted(bounds.actions), seed + step, weighted)
        for step, plan in enumerate(case.steps)
    )
    return replace(case, tapes=tapes)


@st.composite
def _scripts(draw: DrawFn) -> Script:
    chunk, decodes = draw(st.integers(*CHUNK)), draw(st.integers(*DECODES))
    return Script(context=draw(st.sampled_from(CONTEXTS)), chunks=(chunk, *(1,) * decodes), arrival=0, shares=False)


def _tape(layers: int, plan: StepPlan, actions: list[int], seed: int, weighted: bool) -> TapePlan:
    lines: Lines = tuple(
        tuple(actions[token(seed, layer, row, len(actions))] for row in range(plan.rows)) for layer in range(layers)
    )
    return TapePlan(actions=lines, eighths=eighths_of(lines, 1) if weighted else None)


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return wide_cases(subject)


def check(subject: Subject, case: ScheduleCase) -> None:
    answer = oracle_of(subject).answer(case)
    for step, ran in enumerate(run(subject, case)):
        truth, same = answer.truth[step], answer.same[step]
        check_result(subject, case, step, ran.result, truth, same)
        check_kv(subject, case, step, unscaled(ran, case.layout, subject.model.dtype), truth, same)
        rows = case.rows(step)
        subject.seen["wide_passes"] += len(rows) > CHUNK[0] * REQUESTS[0]
        subject.seen["far_rows"] += sum(row.position > FAR for row in rows)
        subject.seen["late_passes"] += step >= LATE


SEM_WIDE = Property(
    id="sem.wide",
    clause="SEM-1",
    title="the same for many rows, long contexts and later passes",
    cases=cases,
    check=check,
    counters=("wide_passes", "far_rows", "late_passes"),
    compares="margin",
    examples=8,
)
