"""GRAPH-2: changing routes captures nothing anew and never makes the host wait."""

from __future__ import annotations

from properties.contexts import place_contexts
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import opened_graphs, raw_decode
from properties.graph.engine import GraphSession
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "GRAPH-2"


def check(subject: Subject, case: GraphCase) -> None:
    """A sequence of passes under watch; the model's own code runs in none of them."""
    schedule = case.schedule
    last: tuple[tuple[int, ...], ...] | None = None
    with opened_graphs(subject, case) as session:
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            before = session.code_runs
            waited = _watched(session, case, step)
            if session.code_runs != before:
                raise Violation(CLAUSE, "captured_anew", {"step": step, "runs": session.code_runs - before})
            if waited is not None:
                raise Violation(CLAUSE, "host_waits", {"step": step, "error": waited})
            subject.seen["replays"] += 1
            if not case.dense[step]:
                actions = schedule.tapes[step].actions
                subject.seen["changed_routes"] += last is not None and actions != last
                last = actions


def _watched(session: GraphSession, case: GraphCase, step: int) -> str | None:
    """Run a pass; what made the host wait, or None."""
    try:
        with session.no_waits():
            raw_decode(session, case, step, "replay")
    except RuntimeError as error:
        return next(iter(str(error).splitlines()), "")
    return None


GRAPH_STILL = Property(
    id="graph.still",
    clause=CLAUSE,
    title="changing routes costs no capture and no host synchronisation",
    cases=lambda subject: graph_cases(subject, dense=True),
    check=check,
    counters=("replays", "changed_routes"),
    examples=30,
)
