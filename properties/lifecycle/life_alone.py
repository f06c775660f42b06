"""LIFE-1: whatever the schedule, a request's tokens and KV are those of the reference running it alone."""

from __future__ import annotations

import torch

from properties.compare import Envelope, outside
from properties.lifecycle.case import LifeCase, Rules, life_cases
from properties.lifecycle.engine import FINISHED, History, Kv, Pass, Ran, engine_of
from properties.lifecycle.paths import Path, paths
from properties.lifecycle.play import play
from properties.lifecycle.reference_alone import Actions, Answer, both
from properties.lifecycle.routes import Modes, expected_routes, fallen_rows, plan_of
from properties.lifecycle.seen import note
from properties.property import Property, Subject
from properties.violation import Violation
from reference.action import RUN

CLAUSE = "LIFE-1"
COUNTERS = (
    "finished",
    "retractions",
    "prefix_hits",
    "chunked",
    "mixed_passes",
    "aborts",
    "promotions",
    "slot_reuses",
    "routed_replays",
)


def check(subject: Subject, case: LifeCase) -> None:
    history = play(subject, case)
    note(subject, history, COUNTERS)
    if _captures(subject):
        check_replayed(history.passes)
    outputs = {case.name(number): arrival.outputs for number, arrival in enumerate(case.arrivals)}
    ways = paths(history)
    fallen = fallen_rows(history, engine_of(subject))
    for name, ran in history.requests.items():
        modes = Modes(plan=plan_of(ran), prompt=len(ran.prompt), fallen=fallen[name])
        if name in ways:
            check_rows(subject, case.rules, history, ran, ways[name], modes)
        if ran.finish in FINISHED:
            check_length(ran, outputs[name])
            check_against_reference(subject, case.rules, ran, modes)


def check_replayed(passes: tuple[Pass, ...]) -> None:
    """A routed decode batch is replayed: one that runs eagerly computes the same, many times slower."""
    for step, each in enumerate(passes):
        if each.decode and each.actions is not None and not each.replayed:
            raise Violation("WORK-1", "decode_ran_eagerly", {"step": step, "rows": len(each.rows)})


def check_length(ran: Ran, asked: int) -> None:
    """All tokens asked for, or fewer where the model ended it."""
    if len(ran.outputs) != asked if ran.finish == "length" else not 0 < len(ran.outputs) <= asked:
        facts = {"request": ran.name, "finish": ran.finish, "got": len(ran.outputs), "expected": asked}
        raise Violation(CLAUSE, "wrong_length", facts)


def check_rows(subject: Subject, rules: Rules, history: History, ran: Ran, way: Path, modes: Modes) -> None:
    """Rows follow each other without a gap, are recorded as whose they are, and take the policy's routes."""
    tokens = (*ran.prompt, *ran.outputs)
    routes = expected_routes(rules, len(subject.model.routed_layers), ran.name, tokens, modes)
    for turn in way:
        for before, piece in zip((None, *turn), turn, strict=False):
            if before is not None and piece.first != before.end:
                facts = {"request": ran.name, "step": piece.step, "got": piece.first, "expected": before.end}
                raise Violation(CLAUSE, "rows_not_consecutive", facts)
            for row in range(piece.row, piece.row + piece.count):
                check_row(history.passes[piece.step], piece.step, row, ran, routes, len(subject.model.routed_layers))


def check_row(each: Pass, step: int, row: int, ran: Ran, routes: list[Actions], layers: int) -> None:
    """One row of a pass as it was recorded."""
    position = each.rows[row].position
    if position >= len(routes):
        # scheduled before the engine knew that the request had ended
        return
    facts: dict[str, object] = {"request": ran.name, "step": step, "row": row, "position": position}
    if each.owners is not None:
        owner = each.owners[row] if row < len(each.owners) else None
        if owner is None or (owner.request, owner.position) != (ran.name, position):
            got = None if owner is None else f"{owner.request}:{owner.position}"
            raise Violation(CLAUSE, "recorded_of_another_row", {**facts, "got": got})
    taken = each.action(row) or (RUN,) * layers
    expected = routes[position] or (RUN,) * layers
    if taken != expected:
        raise Violation(CLAUSE, "wrong_route", {**facts, "got": taken, "expected": expected})


def check_against_reference(subject: Subject, rules: Rules, ran: Ran, modes: Modes) -> None:
    """Tokens and KV of a request that finished."""
    assert ran.kv is not None
    tokens = (*ran.prompt, *ran.outputs)[: len(ran.slots)]
    layers = len(subject.model.routed_layers)
    routes = expected_routes(rules, layers, ran.name, tokens, modes)
    same, truth = (each.answer(tokens, routes) for each in both(subject, rules.weights, "checkpoint"))
    check_kv(subject, ran, ran.kv, same, truth)
    check_tokens(subject, ran, same, truth)


def check_kv(subject: Subject, ran: Ran, kv: Kv, same: Answer, truth: Answer) -> None:
    """All positions, layer by layer, within the envelope."""
    rule = Envelope.of_layers(subject.model.config.num_hidden_layers)
    for layer, (got, near, true) in enumerate(zip(kv, same.kv, truth.kv, strict=True)):
        for part, tensors in zip("kv", zip(got, near, true, strict=True), strict=True):
            found = outside(*tensors, rule)
            if found is not None:
                facts = {"request": ran.name, "layer": layer, "part": part, "position": found[0], **found[1]}
                raise Violation(CLAUSE, "wrong_kv", facts)


def check_tokens(subject: Subject, ran: Ran, same: Answer, truth: Answer) -> None:
    """Each token is the one that the reference likes best after those before it; where it likes another one better by
    no more than the envelope allows, that is counted."""
    first = len(ran.prompt) - 1
    near, true = same.logits[first:], truth.logits[first:]
    bound = Envelope.of_layers(subject.model.config.num_hidden_layers).bound(near, true)
    chosen = true[torch.arange(len(ran.outputs)), list(ran.outputs)]
    gap = (true.amax(1) - chosen) / true.abs().amax(1).clamp_min(1.0)
    worse = torch.nonzero(gap > 2 * bound).flatten().tolist()
    ties = int(((gap > 0) & (gap <= 2 * bound)).sum())
    if ties:
        subject.seen["ties_inside_the_envelope"] += ties
    if worse:
        index = worse[0]
        facts = {"request": ran.name, "output": index, "got": ran.outputs[index], "expected": int(true[index].argmax())}
        raise Violation(CLAUSE, "wrong_token", facts)


def _captures(subject: Subject) -> bool:
    return engine_of(subject).captures


LIFE_ALONE = Property(
    id="life.alone",
    clause=CLAUSE,
    title="tokens, routes and KV of every request are those of the reference running it alone",
    cases=lambda subject: life_cases(subject),
    check=check,
    counters=COUNTERS,
    only_where={"routed_replays": _captures},
    compares="margin",
    examples=24,
)
