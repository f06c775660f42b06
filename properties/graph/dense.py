"""MODE-1 for graphs: a dense graph that was captured beside a routed one is the engine's own without the plugin."""

from __future__ import annotations

from dataclasses import replace

from properties.compare import differing
from properties.contexts import place_contexts
from properties.drive import stored
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import decoded, empty, engine_of, kv_pairs, opened_graphs
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "MODE-1"


def check(subject: Subject, case: GraphCase) -> None:
    """Every pass dense, on both engines; a routed one goes before each on the one that has it."""
    schedule, page_size = case.schedule, case.schedule.layout.page_size
    dense, routed = (replace(case, dense=(every,) * len(case.dense)) for every in (True, False))
    stock = engine_of(subject).open_stock(subject.model, page_size)
    try:
        empty(stock.kv, page_size)
        with opened_graphs(subject, case) as session:
            for step, plan in enumerate(schedule.steps):
                for kv in (stock.kv, session.kv):
                    place_contexts(kv, schedule, schedule.layout, step)
                decoded(session, routed, step)
                got = decoded(session, dense, step)
                logits = stock.decode(plan)
                own = stored(stock.kv, [row.slot for row in schedule.rows(step)])
                for name, one, other in (("logits", got.result.logits, logits), *kv_pairs(got.kv, own)):
                    found = differing(one, other)
                    if found is not None:
                        raise Violation(CLAUSE, "differs_from_stock", {"step": step, "what": name} | found.facts())
                subject.seen["compared"] += plan.rows
                subject.seen["other_routes"] += any(any(line) for line in schedule.tapes[step].actions)
    finally:
        stock.close()


GRAPH_DENSE = Property(
    id="graph.dense",
    clause=CLAUSE,
    title="a dense graph beside a routed one is the engine's own, bit for bit",
    cases=graph_cases,
    check=check,
    counters=("compared", "other_routes"),
    examples=30,
)
