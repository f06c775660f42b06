"""GRAPH-4: variants and sizes may alternate in any order; none disturbs another's outputs, plans or buffers."""

from __future__ import annotations

from itertools import pairwise

from properties.compare import differing
from properties.contexts import place_contexts
from properties.graph.case import LONG, GraphCase, captured_size, graph_cases, graph_sizes
from properties.graph.drive import check_equal, decoded, opened_graphs, raw_decode
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "GRAPH-4"


def check(subject: Subject, case: GraphCase) -> None:
    """All passes without their graphs, one after the other; from their graphs in that order; then in the case's order,
    each over what the others have left in the pool, which is the same again: a pass writes its own slots alone."""
    schedule = case.schedule
    with opened_graphs(subject, case) as session:
        expected = []
        for step in range(len(schedule.steps)):
            place_contexts(session.kv, schedule, schedule.layout, step)
            expected.append(decoded(session, case, step, "twin"))
        # a request that came late or left early has given its pages to another: what holds then holds now
        settled = [step for step in range(len(schedule.steps)) if _settled(case, step)]
        for step in settled:
            check_equal(CLAUSE, "order_changes_result", step, decoded(session, case, step), expected[step])
        held, evidence = None, None
        for step in (step for step in case.order if step in settled):
            result = raw_decode(session, case, step, "replay")
            if held is not None and evidence is not None and differing(held, evidence) is not None:
                raise Violation(CLAUSE, "evidence_overwritten", {"step": step})
            check_equal(CLAUSE, "order_changes_result", step, decoded(session, case, step), expected[step])
            held, evidence = result.actions, result.actions.detach().to("cpu", copy=True)
            subject.seen["replays"] += 1
        _count(subject, case, settled)


def _settled(case: GraphCase, step: int) -> bool:
    """Whether no later pass has taken over a page that this one reads or writes."""
    schedule = case.schedule
    own = {(chunk.request, page) for chunk in schedule.steps[step].chunks for page in chunk.pages}
    pages = {page for _, page in own}
    later = {
        (chunk.request, page) for plan in schedule.steps[step + 1 :] for chunk in plan.chunks for page in chunk.pages
    }
    arrived = {
        (context.request, page) for context in schedule.contexts if context.step > step for page in context.pages
    }
    return not any(page in pages and (request, page) not in own for request, page in later | arrived)


def _count(subject: Subject, case: GraphCase, settled: list[int]) -> None:
    order = [step for step in case.order if step in settled]
    sizes = [captured_size(graph_sizes(subject), case.schedule.steps[step].rows) for step in order]
    subject.seen["other_size"] += sum(one != other for one, other in pairwise(sizes))
    variants = [case.dense[step] for step in order]
    subject.seen["other_variant"] += sum(one != other for one, other in pairwise(variants))
    subject.seen["long_dense"] += sum(case.dense[step] and _is_long(case, step) for step in order)
    routes = [None if case.dense[step] else case.schedule.tapes[step].actions for step in order]
    subject.seen["other_routes"] += sum(None not in (one, other) and one != other for one, other in pairwise(routes))


def _is_long(case: GraphCase, step: int) -> bool:
    """Whether the pass has a request that a plan may split."""
    return any(chunk.start >= min(LONG) for chunk in case.schedule.steps[step].chunks)


GRAPH_ALTERNATE = Property(
    id="graph.alternate",
    clause=CLAUSE,
    title="graphs of either variant and any size may be replayed in any order",
    cases=lambda subject: graph_cases(subject, dense=True),
    check=check,
    counters=("replays", "other_size", "other_variant", "other_routes", "long_dense"),
    examples=40,
)
