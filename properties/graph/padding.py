"""GRAPH-3: padding rows of a captured size are inert, whatever they hold, and nobody counts them."""

from __future__ import annotations

from dataclasses import astuple

from properties.contexts import place_contexts
from properties.graph.case import GraphCase, captured_size, graph_cases, graph_sizes
from properties.graph.drive import check_equal, decoded, opened_graphs, work_of
from properties.property import Property, Subject
from properties.runtime import StepResult
from properties.violation import Violation
from reference.plan import TapePlan

CLAUSE = "GRAPH-3"


def check(subject: Subject, case: GraphCase) -> None:
    """Each pass with padding of zeros, then with padding of the case's fill."""
    schedule = case.schedule
    with opened_graphs(subject, case) as session:
        for step, plan in enumerate(schedule.steps):
            place_contexts(session.kv, schedule, schedule.layout, step)
            session.fill_padding("zero")
            expected = decoded(session, case, step)
            _check_counts(step, schedule.tapes[step], expected.result)
            session.fill_padding(case.fill)
            got = decoded(session, case, step)
            check_equal(CLAUSE, "padding_changes_result", step, got, expected)
            _check_counts(step, schedule.tapes[step], got.result)
            padding = captured_size(graph_sizes(subject), plan.rows) - plan.rows
            subject.seen["pad_rows"] += padding
            subject.seen["unpadded"] += padding == 0


def _check_counts(step: int, tape: TapePlan, result: StepResult) -> None:
    for layer, (line, work) in enumerate(zip(tape.actions, result.work, strict=True)):
        expected = work_of(line)
        if work != expected:
            facts = {"step": step, "layer": layer, "got": astuple(work), "expected": astuple(expected)}
            raise Violation(CLAUSE, "padding_counted", facts)


GRAPH_PADDING = Property(
    id="graph.padding",
    clause=CLAUSE,
    title="padding rows change nothing and are never counted",
    cases=graph_cases,
    check=check,
    counters=("pad_rows", "unpadded"),
    examples=40,
)
