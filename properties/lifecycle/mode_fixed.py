"""MODE-3: the modes that a request's rows really ran in, over its whole life, are those of one plan."""

from __future__ import annotations

from collections.abc import Iterator

from properties.lifecycle.case import LifeCase, life_cases
from properties.lifecycle.engine import FINISHED, History, Pass, Ran, engine_of
from properties.lifecycle.paths import Path, paths
from properties.lifecycle.play import play
from properties.lifecycle.routes import Modes, fallen_rows
from properties.lifecycle.seen import note
from properties.property import Property, Subject
from properties.violation import Violation
from reference.action import PROJECT_ONLY, RUN

CLAUSE = "MODE-3"
RECOMPUTED = "recomputed_in_another_mode"
# the most telling first: a row that was wrong from the start says more than one that was computed again
TELLING = ("ran_in_another_mode", RECOMPUTED, "recorded_otherwise")
COUNTERS = ("retractions", "promotions", "demotions", "recomputed_rows", "passes_of_both_modes", "chunked")


def check(subject: Subject, case: LifeCase) -> None:
    """The policy projects every row at every routed layer, so that a row shows its mode."""
    history = play(subject, case)
    note(subject, history, COUNTERS)
    ways = paths(history)
    fallen = fallen_rows(history, engine_of(subject))
    for name, ran in history.requests.items():
        if name in ways:
            check_request(subject, history, ran, ways[name], fallen[name])
    for each in history.passes:
        subject.seen["passes_of_both_modes"] += len({mode_of(each, row) for row in range(len(each.rows))}) > 1


def mode_of(each: Pass, row: int) -> str:
    """How a row ran: it projected everywhere, nowhere, or neither, which is no mode at all."""
    taken = each.action(row)
    if taken is not None and all(code == PROJECT_ONLY for code in taken):
        return "routed"
    return "dense" if taken is None or PROJECT_ONLY not in taken else "mixed"


def check_request(subject: Subject, history: History, ran: Ran, way: Path, fallen: frozenset[int]) -> None:
    plans = set(ran.plans)
    plan = next(iter(plans))
    if len(plans) > 1 or plan is None:
        raise Violation(CLAUSE, "plan_changed", {"request": ran.name, "plans": sorted(map(str, plans))})
    modes = Modes(plan=plan, prompt=len(ran.prompt), fallen=fallen)
    reached = 0
    other: list[Violation] = []
    for turn in way:
        for piece in turn:
            for row in range(piece.row, piece.row + piece.count):
                other.extend(wrong_mode(history, piece.step, row, ran, modes, computed=reached))
            subject.seen["recomputed_rows"] += max(0, min(reached, piece.end) - max(piece.first, len(ran.prompt)))
        reached = max(reached, turn[-1].end)
    for violation in sorted(other, key=lambda each: TELLING.index(each.reason)):
        raise violation
    subject.seen["demotions"] += plan == ("routed", "dense")
    if ran.finish in FINISHED:
        check_told(subject, history, ran, way, modes)


def wrong_mode(history: History, step: int, row: int, ran: Ran, modes: Modes, *, computed: int) -> Iterator[Violation]:
    """Of one row: the mode that its position tells, and recorded as that. computed: how many positions
    had been computed before the request's KV was last taken."""
    each = history.passes[step]
    position = each.rows[row].position
    decodes = position >= len(ran.prompt)
    got, expected = mode_of(each, row), modes.at(position)
    facts = {"request": ran.name, "step": step, "position": position, "got": got, "expected": expected}
    if got != expected:
        yield Violation(CLAUSE, RECOMPUTED if decodes and position < computed else "ran_in_another_mode", facts)
    owner = None if each.owners is None else each.owners[row]
    if owner is not None and (owner.decode, owner.dense) != (decodes, expected == "dense"):
        yield Violation(CLAUSE, "recorded_otherwise", {**facts, "decode": owner.decode, "dense": owner.dense})


def check_told(subject: Subject, history: History, ran: Ran, way: Path, modes: Modes) -> None:
    """The answer states the plan, and the skipped share of the rows that really ran."""
    told, plan = ran.told, modes.plan
    dense = (RUN,) * len(subject.model.routed_layers)
    shares = told and told["skipped_share"]
    for decodes, phase in enumerate(("prefill", "decode")):
        codes = list(_codes(history, ran, way, dense, bool(decodes))) if plan[decodes] == "routed" else []
        share = sum(code == PROJECT_ONLY for code in codes) / len(codes) if codes else None
        got = None if told is None or shares is None else (told[phase], shares[phase])
        if got != (plan[decodes], share):
            facts = {"request": ran.name, "phase": phase, "got": got, "expected": (plan[decodes], share)}
            raise Violation(CLAUSE, "told_otherwise", facts)


def _codes(history: History, ran: Ran, way: Path, dense: tuple[int, ...], decodes: bool) -> Iterator[int]:
    """Actions of the phase's rows that led to the request's tokens, as often as they ran. dense: of a row that no
    routed pass had."""
    end = len(ran.prompt) + len(ran.outputs) - 1
    for piece in (piece for turn in way for piece in turn):
        for row in range(piece.row, piece.row + piece.count):
            position = history.passes[piece.step].rows[row].position
            if position < end and (position >= len(ran.prompt)) == decodes:
                yield from history.passes[piece.step].action(row) or dense


MODE_FIXED = Property(
    id="mode.fixed",
    clause=CLAUSE,
    title="every row runs in its phase's mode of the request's one plan, whenever it is computed",
    cases=lambda subject: life_cases(subject, modes=(1, 1, 1, 0), eighths=(8,), thirds=(3,), crowded=True),
    check=check,
    counters=COUNTERS,
    examples=24,
)
