"""SEM-3: a pass whose rows are all forced to RUN with w = 1 is the dense model."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.batch import Bounds, bounds_of, schedules
from properties.case import ScheduleCase, chunk_rows
from properties.drive import run
from properties.oracle import oracle_of
from properties.property import Property, Subject
from properties.tape import constant
from properties.views import first_difference, first_outside, view_of_run, views_of_oracle
from properties.violation import Violation
from vskipper.action import Action


@st.composite
def all_run_cases(draw: DrawFn, subject: Subject, bounds: Bounds) -> ScheduleCase:
    case = draw(schedules(replace(bounds, actions=frozenset({int(Action.RUN)}))))
    eighths = draw(st.sampled_from((8, None)))
    routed = len(subject.model.routed_layers)
    return replace(case, tapes=tuple(constant(routed, step.rows, Action.RUN, eighths) for step in case.steps))


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return all_run_cases(subject, bounds_of(subject.model, subject.runtime.capabilities))


def check(subject: Subject, case: ScheduleCase) -> None:
    exact = subject.runtime.capabilities.same_kernels
    answer = oracle_of(subject).answer(case, dense=True)
    routed, dense = run(subject, case), run(subject, case, mode="dense")
    for step, plan in enumerate(case.steps):
        for chunk, rows in enumerate(chunk_rows(plan)):
            got, expected = (
                view_of_run(ran[step], case.layout, subject.model.dtype, chunk, rows) for ran in (routed, dense)
            )
            oracle = views_of_oracle(answer, step, chunk, rows)
            found = first_difference(got, expected) if exact else first_outside(got, *oracle)
            if found is not None:
                facts = {"step": step, "request": plan.chunks[chunk].request, "row": rows[0]}
                raise Violation("SEM-3", "all_run_differs", facts | found)
            subject.seen["rows"] += len(rows)
        subject.seen["dense_without_tape"] += dense[step].result.actions.numel() == 0


SEM_ALL_RUN = Property(
    id="sem.all_run_is_dense",
    clause="SEM-3",
    title="all rows forced to RUN with w = 1 equal the dense model",
    cases=cases,
    check=check,
    counters=("rows", "dense_without_tape"),
    compares="either",
    examples=60,
)
