"""POL-2: the policy itself can be captured: what it decides in a replay is what its code decides."""

from __future__ import annotations

from properties.contexts import place_contexts
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import check_equal, decoded, opened_graphs
from properties.pool import fill_nan
from properties.property import Property, Subject
from vskipper.action import Action

CLAUSE = "POL-2"


def check(subject: Subject, case: GraphCase) -> None:
    """The policy decides; each pass without the graph, then from it."""
    schedule = case.schedule
    with opened_graphs(subject, case, forced=False) as session:
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            expected = decoded(session, case, step, "twin", forced=False)
            fill_nan(session.kv, [row.slot for row in schedule.rows(step)])
            got = decoded(session, case, step, forced=False)
            check_equal(CLAUSE, "replay_decides_otherwise", step, got, expected)
            subject.seen["decisions"] += got.result.actions.numel()
            subject.seen["other_than_run"] += int((got.result.actions != int(Action.RUN)).sum())


def may_skip(subject: Subject) -> bool:
    """Whether the policy declares another action than RUN."""
    policy = subject.make_policy(subject.model.dtype)
    return bool(policy.capabilities.actions - {Action.RUN})


GRAPH_POLICY = Property(
    id="graph.policy",
    clause=CLAUSE,
    title="a captured policy decides as its code does",
    cases=graph_cases,
    check=check,
    counters=("decisions", "other_than_run"),
    only_where={"other_than_run": may_skip},
    examples=30,
    scope="model",
    own_routes=True,
)
