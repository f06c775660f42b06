"""GRAPH-1: a replay gives what the captured code gives without the graph, bit for bit, and what the reference gives
within its envelope; it writes its own slots alone."""

from __future__ import annotations

from properties.case import ScheduleCase
from properties.contexts import place_contexts
from properties.core.sem import check_result
from properties.graph.case import GraphCase, captured_size, graph_cases, graph_sizes, project_counts
from properties.graph.drive import check_equal, decoded, opened_graphs
from properties.graph.engine import captured_count
from properties.oracle import oracle_of
from properties.pool import fill_nan, snapshot, touched
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "GRAPH-1"


def check_twin(subject: Subject, case: GraphCase) -> None:
    """Each pass without the graph first, then again from it, its slots emptied in between; neither writes others."""
    schedule = case.schedule
    with opened_graphs(subject, case) as session:
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            own = [row.slot for row in schedule.rows(step)]
            before = snapshot(session.kv)
            expected = decoded(session, case, step, "twin")
            fill_nan(session.kv, own)
            got = decoded(session, case, step)
            check_equal(CLAUSE, "replay_differs", step, got, expected)
            stray = touched(before, snapshot(session.kv), {*own, *range(schedule.layout.page_size)})
            if stray is not None:
                facts = {"step": step, "layer": stray.layer, "part": stray.part, "slot": stray.slot}
                raise Violation(CLAUSE, "foreign_slot_written", facts)
            _count(subject, schedule, step)


def _count(subject: Subject, schedule: ScheduleCase, step: int) -> None:
    rows = schedule.steps[step].rows
    captured = captured_count(captured_size(graph_sizes(subject), rows))
    for count in project_counts(schedule.tapes[step]):
        subject.seen["no_row"] += count == 0
        subject.seen["every_row"] += count == rows
        subject.seen["fewer_than_captured"] += count < captured
        subject.seen["as_captured"] += count == captured
        subject.seen["more_than_captured"] += count > captured
    subject.seen["padded"] += rows not in graph_sizes(subject)


def check_outputs(subject: Subject, case: GraphCase) -> None:
    """A twin that is wrong in the same way would hide a replay that is: so the oracle is asked too."""
    schedule = case.schedule
    answer = oracle_of(subject).answer(schedule, dense=case.dense)
    with opened_graphs(subject, case) as session:
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            result = decoded(session, case, step).result
            expected = () if case.dense[step] else schedule.tapes[step].actions
            if tuple(map(tuple, result.actions.tolist())) != expected:
                raise Violation(CLAUSE, "routes_differ", {"step": step})
            check_result(subject, schedule, step, result, answer.truth[step], answer.same[step])
            subject.seen["rows"] += schedule.steps[step].rows
            subject.seen["dense_passes"] += case.dense[step]
            subject.seen["project_rows"] += 0 if case.dense[step] else sum(project_counts(schedule.tapes[step]))


GRAPH_REPLAY = Property(
    id="graph.replay",
    clause=CLAUSE,
    title="a replay equals the captured code run without the graph, bit for bit, whatever the routes",
    cases=graph_cases,
    check=check_twin,
    counters=("no_row", "every_row", "fewer_than_captured", "as_captured", "more_than_captured", "padded"),
    examples=60,
)
GRAPH_OUTPUTS = Property(
    id="graph.outputs",
    clause=CLAUSE,
    title="what replays give equals the reference under the same routes",
    cases=lambda subject: graph_cases(subject, dense=True),
    check=check_outputs,
    counters=("rows", "dense_passes", "project_rows"),
    examples=30,
    compares="margin",
)
