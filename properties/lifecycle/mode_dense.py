"""MODE-1: an engine with vSkipper off, or set to dense, is the stock engine bit for bit."""

from __future__ import annotations

from dataclasses import replace

from properties.compare import differing
from properties.lifecycle.case import LifeCase, life_cases
from properties.lifecycle.engine import History, Mode, Ran
from properties.lifecycle.play import Player, opened
from properties.lifecycle.seen import note
from properties.lifecycle.shared import first_eviction
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "MODE-1"
KINDS: tuple[Mode, ...] = ("off", "dense")
COUNTERS = ("compared", "retractions", "prefix_hits", "logprobs", "chunked")
# what a request is and is asked, whatever runs beside it
OWN = ("filed_under", "told", "plans", "attributes")
# and what it comes to
RESULTS = ("outputs", "logprobs", "cached", "retractions", "finish", "slots")


def check(subject: Subject, case: LifeCase) -> None:
    """Up to the first eviction all is compared: from there on two runs of one stock engine may differ too."""
    stock = _history(subject, case, "off", stock=True)
    page_size = case.shape.page_size
    for mode in KINDS:
        history = _history(subject, case, mode, stock=False)
        until = min(first_eviction(stock, page_size), first_eviction(history, page_size))
        before, expected = _before(history, until), _before(stock, until)
        note(subject, replace(before, requests=history.requests), COUNTERS)
        where: dict[str, object] = {"mode": mode}
        if any(each.owners is not None for each in history.passes):
            raise Violation(CLAUSE, "routed_pass", where)
        if [each.rows for each in before.passes] != [each.rows for each in expected.passes]:
            raise Violation(CLAUSE, "schedule_differs", where)
        if [each.replayed for each in before.passes] != [each.replayed for each in expected.passes]:
            raise Violation(CLAUSE, "graph_differs", where)
        if before.retracted != expected.retracted:
            raise Violation(CLAUSE, "retraction_differs", where)
        for name, ran in history.requests.items():
            check_same(ran, stock.requests[name], OWN, {**where, "request": name})
        for name, ran in before.requests.items():
            if name not in expected.requests:
                continue
            check_same(ran, expected.requests[name], RESULTS, {**where, "request": name})
            check_bits(ran, expected.requests[name], {**where, "request": name})
            subject.seen["compared"] += ran.kv is not None
            subject.seen["logprobs"] += len(ran.logprobs)


def _before(history: History, until: int) -> History:
    """What had happened before iteration `until`, and the requests of which nothing came later. That KV was taken in it
    was decided before anything was evicted."""
    later = {row.request for each in history.passes if each.iteration >= until for row in each.rows}
    return replace(
        history,
        passes=tuple(each for each in history.passes if each.iteration < until),
        requests={name: ran for name, ran in history.requests.items() if name not in later},
        retracted=tuple((iteration, name) for iteration, name in history.retracted if iteration <= until),
    )


def check_same(got: Ran, expected: Ran, names: tuple[str, ...], where: dict[str, object]) -> None:
    """Some facts of a request; its engine object's attributes are one of them."""
    for name in names:
        one, two = getattr(got, name), getattr(expected, name)
        if one != two:
            facts = {"names": sorted(one ^ two)} if name == "attributes" else {"got": one, "expected": two}
            reason = "attributes_differ" if name == "attributes" else "request_differs"
            raise Violation(CLAUSE, reason, {**where, "what": name, **facts})


def check_bits(got: Ran, expected: Ran, where: dict[str, object]) -> None:
    """K and V of a request that finished."""
    for layer, pairs in enumerate(zip(got.kv or (), expected.kv or (), strict=True)):
        for part, tensors in zip("kv", zip(*pairs, strict=True), strict=True):
            found = differing(*tensors)
            if found is not None:
                raise Violation(CLAUSE, "kv_differs", {**where, "layer": layer, "part": part, **found.facts()})


def _history(subject: Subject, case: LifeCase, mode: Mode, *, stock: bool) -> History:
    with opened(subject, case.shape, replace(case.rules.served(), mode=mode), stock=stock) as session:
        return session.run(Player(session, case, subject.model.config.vocab_size, logprobs=True))


MODE_DENSE = Property(
    id="mode.dense",
    clause=CLAUSE,
    title="vSkipper off or dense is the stock engine: schedule, graphs, tokens, logprobs, KV bits and attributes",
    cases=lambda subject: life_cases(subject, users=True),
    check=check,
    counters=COUNTERS,
    examples=10,
)
