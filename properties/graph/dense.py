"""MODE-1 for graphs: a dense graph that was captured beside a routed one is the engine's own without the plugin."""

from __future__ import annotations

from dataclasses import replace

from properties.compare import differing
from properties.contexts import place_contexts
from properties.drive import stored
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import decoded, engine_of, opened_graphs
from properties.pool import fill_nan
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "MODE-1"


def check(subject: Subject, case: GraphCase) -> None:
    """Every pass dense, on both engines; a routed one goes before each on the one that has it."""
    schedule, page_size = case.schedule, case.schedule.layout.page_size
    dense = replace(case, dense=(True,) * len(case.dense))
    stock = engine_of(subject).open_stock(subject.model, page_size)
    try:
        fill_nan(stock.kv)
        for tensor in (part for pair in stock.kv for part in pair):
            tensor[:page_size] = 0.0
        with opened_graphs(subject, case) as session:
            for step, plan in enumerate(schedule.steps):
                for kv in (stock.kv, session.kv):
                    place_contexts(kv, schedule, schedule.layout, step)
                decoded(session, replace(case, dense=(False,) * len(case.dense)), step)
                got = decoded(session, dense, step)
                logits = stock.decode(plan)
                own = stored(stock.kv, [row.slot for row in schedule.rows(step)])
                pairs = [("logits", got.result.logits, logits)]
                pairs += [
                    (f"{name}[{layer}]", one, other)
                    for layer, both in enumerate(zip(got.kv, own, strict=True))
                    for name, one, other in zip("kv", *both, strict=True)
                ]
                for name, one, other in pairs:
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
