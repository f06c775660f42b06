"""GRAPH-2: changing routes captures nothing anew and never makes the host wait."""

from __future__ import annotations

from properties.contexts import place_contexts
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import opened_graphs, raw_decode
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "GRAPH-2"


def check(subject: Subject, case: GraphCase) -> None:
    """A sequence of passes under watch; the model's own code runs in none of them."""
    schedule = case.schedule
    last: tuple[tuple[int, ...], ...] = ()
    with opened_graphs(subject, case) as session:
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            before = session.code_runs
            try:
                with session.no_waits():
                    raw_decode(session, case, step, "replay")
            except RuntimeError as error:
                facts = {"step": step, "error": next(iter(str(error).splitlines()), "")}
                raise Violation(CLAUSE, "host_waits", facts) from error
            if session.code_runs != before:
                raise Violation(CLAUSE, "captured_anew", {"step": step, "runs": session.code_runs - before})
            actions = schedule.tapes[step].actions
            subject.seen["replays"] += 1
            subject.seen["changed_routes"] += not case.dense[step] and actions != last
            last = actions


GRAPH_STILL = Property(
    id="graph.still",
    clause=CLAUSE,
    title="changing routes costs no capture and no host synchronisation",
    cases=lambda subject: graph_cases(subject, dense=True),
    check=check,
    counters=("replays", "changed_routes"),
    examples=30,
)
