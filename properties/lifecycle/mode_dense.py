"""MODE-1: an engine with vSkipper off, or set to dense, is the stock engine bit for bit."""

from __future__ import annotations

from dataclasses import replace

from properties.compare import differing
from properties.lifecycle.case import LifeCase, life_cases
from properties.lifecycle.engine import History, Mode, Ran
from properties.lifecycle.play import Player, opened
from properties.lifecycle.seen import note
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "MODE-1"
KINDS: tuple[Mode, ...] = ("off", "dense")


def check(subject: Subject, case: LifeCase) -> None:
    stock = _history(subject, case, "off", stock=True)
    note(subject, stock)
    for mode in KINDS:
        history = _history(subject, case, mode, stock=False)
        where = {"mode": mode}
        if [each.rows for each in history.passes] != [each.rows for each in stock.passes]:
            raise Violation(CLAUSE, "schedule_differs", where)
        if any(each.owners is not None for each in history.passes):
            raise Violation(CLAUSE, "routed_pass", where)
        if history.requests.keys() != stock.requests.keys():
            raise Violation(CLAUSE, "requests_differ", where)
        for name, ran in history.requests.items():
            check_same(ran, stock.requests[name], {**where, "request": name})
            subject.seen["logprobs"] += len(ran.logprobs)


def check_same(got: Ran, expected: Ran, where: dict[str, object]) -> None:
    """Every fact of a request, its engine object's attributes included."""
    for name in ("outputs", "logprobs", "filed_under", "cached", "retractions", "finish", "slots", "told", "plans"):
        if getattr(got, name) != getattr(expected, name):
            facts = {**where, "what": name, "got": getattr(got, name), "expected": getattr(expected, name)}
            raise Violation(CLAUSE, "request_differs", facts)
    if got.attributes != expected.attributes:
        changed = sorted(got.attributes ^ expected.attributes)
        raise Violation(CLAUSE, "attributes_differ", {**where, "names": changed})
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
    title="vSkipper off or dense is the stock engine: schedule, tokens, log-probabilities, KV bits and attributes",
    cases=lambda subject: life_cases(subject, users=True),
    check=check,
    counters=("finished", "retractions", "prefix_hits", "logprobs", "chunked"),
    examples=10,
)
