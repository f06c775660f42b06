"""CACHE-1, CACHE-2, CACHE-3: where each request's computation begins, against what it may and must share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.codec import case_type
from properties.lifecycle.case import FORGED, Arrival, LifeCase, Rules, chain_cases, life_cases, shapes
from properties.lifecycle.engine import History, Ran, Shape, engine_of
from properties.lifecycle.paths import paths
from properties.lifecycle.play import Player, opened
from properties.lifecycle.routes import fallen_rows
from properties.lifecycle.seen import note
from properties.lifecycle.shared import Entry, entries, first_eviction, longest, namespace_of
from properties.property import Property, Subject
from properties.violation import Violation


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class SwapCase:
    """Runs on one engine with one prefix cache, each served by rules of its own. runs: arrivals of each."""

    first: LifeCase
    rules: tuple[Rules, ...]
    runs: tuple[tuple[Arrival, ...], ...]

    @property
    def shape(self) -> Shape:
        return self.first.shape

    def cases(self) -> tuple[LifeCase, ...]:
        first = self.first
        later = (
            replace(first, rules=rules, arrivals=come, departures=(), run=run)
            for run, (rules, come) in enumerate(zip(self.rules, self.runs, strict=True), start=1)
        )
        return (first, *later)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A request's first row after it came or came back. first: its position, so that many tokens were shared. may,
    must: how many might and had to be. foreign: how many another namespace holds; of_two_modes: how many its own would
    with tokens of a second mode. turn: 0 when it came. private: nobody else may share them."""

    ran: Ran
    turn: int
    first: int
    may: int
    must: int
    foreign: int
    of_two_modes: int
    private: bool

    def facts(self) -> dict[str, object]:
        return {"request": self.ran.name, "turn": self.turn, "shared": self.first, "may": self.may, "must": self.must}


def begun(subject: Subject, case: LifeCase | SwapCase, names: Collection[str] = ()) -> list[Begun]:
    """All beginnings of all runs of the case. names: counters of runs to raise."""
    cases = case.cases() if isinstance(case, SwapCase) else (case,)
    left: list[Entry] = []
    found: list[Begun] = []
    shape = cases[0].shape
    evicted = False
    with opened(subject, shape, cases[0].rules.served()) as session:
        for run, each in enumerate(cases):
            if run:
                session.serve(each.rules.served())
            player = Player(session, each, subject.model.config.vocab_size)
            history = session.run(player)
            note(subject, history, names)
            keys = {sent.name: sent.user_key for sent in player.submitted.values()}
            left.extend(
                entries(history, each.rules, run, keys, shape.overlap, fallen_rows(history, engine_of(subject)))
            )
            found.extend(_begun(each, run, history, keys, left, evicted))
            evicted = evicted or first_eviction(history, shape.page_size) <= len(history.accounts)
    return found


def _begun(
    case: LifeCase,
    run: int,
    history: History,
    keys: dict[str, str | None],
    left: Sequence[Entry],
    evicted: bool,
) -> list[Begun]:
    found = []
    whole = 0 if evicted else first_eviction(history, case.shape.page_size)
    for name, way in paths(history).items():
        ran = history.requests[name]
        own = namespace_of(ran, case.rules, run, keys[name])
        for number, turn in enumerate(way):
            iteration = history.passes[turn[0].step].iteration
            before = [e for e in left if e.run < run or (e.at <= iteration and e.request != name)]
            if number:
                before += [e for e in left if e.run == run and e.request == name and e.at <= iteration]
            tokens = (*ran.prompt, *ran.outputs) if number else ran.prompt
            page = case.shape.page_size
            mine = [e for e in before if e.namespace == own and e.own]
            sure = [e for e in mine if e.certain] if iteration < whole else []
            found.append(
                Begun(
                    ran=ran,
                    turn=number,
                    first=turn[0].first,
                    may=longest(tokens, mine, page),
                    must=0 if number else longest(tokens, sure, page),
                    foreign=longest(tokens, [e for e in before if e.namespace != own], page),
                    of_two_modes=longest(tokens, [e for e in before if e.namespace == own], page),
                    private=own[1] == "routed" and not case.rules.by_token,
                )
            )
    return found


def check_isolated(subject: Subject, case: SwapCase) -> None:
    for each in begun(subject, case):
        subject.seen["refused"] += each.foreign > each.may
        subject.seen["shared"] += each.first > 0
        if each.first > max(each.may, each.of_two_modes):
            raise Violation("CACHE-1", "foreign_prefix", each.facts())


def check_shared(subject: Subject, case: LifeCase) -> None:
    for each in begun(subject, case, ["promotions"]):
        subject.seen["shared"] += each.first > 0
        subject.seen["certain"] += each.must > 0
        subject.seen["second_mode_kept_out"] += each.of_two_modes > each.may
        if each.may < each.first <= each.of_two_modes:
            raise Violation("CACHE-2", "second_mode_shared", each.facts())
        if each.first < each.must:
            raise Violation("CACHE-2", "not_shared", each.facts())


def check_private(subject: Subject, case: LifeCase) -> None:
    for each in begun(subject, case, ["retractions"]):
        if not each.private:
            continue
        subject.seen["private"] += 1
        subject.seen["refused"] += each.foreign > 0
        if each.turn == 0 and each.first > 0:
            raise Violation("CACHE-3", "shared_between_requests", each.facts())
        if each.first > each.may:
            raise Violation("CACHE-3", "foreign_prefix_after_retraction", each.facts())


# the one thing in which what serves a later run differs
CHANGES: Mapping[str, Callable[[Rules], Rules]] = {
    "seed": lambda rules: replace(rules, seed=4),
    "rate": lambda rules: replace(rules, eighths=6),
    "depth": lambda rules: replace(rules, thirds=1),
    "weights": lambda rules: replace(rules, weights=1),
    "mode": lambda rules: replace(rules, mode=2),
}


# of the common prefix by page size: whole pages of it, so that there is something to share
LONG = {1: (6, 8), 16: (16, 17), 64: (64, 65)}


@st.composite
def alike(draw: DrawFn, shape: Shape) -> tuple[Arrival, ...]:
    """One or two short requests that begin as all others do, the second once the first has ended; the first without a
    user key."""
    users = (0, *draw(st.lists(st.sampled_from((0, 1, 2, 3, FORGED)), max_size=1)))
    return tuple(
        Arrival(
            at=12 * number,
            prefix=0,
            shared=draw(st.sampled_from(LONG[shape.page_size])),
            own=draw(st.integers(1, 2)),
            outputs=draw(st.integers(1, 2)),
            user=user,
        )
        for number, user in enumerate(users)
    )


@st.composite
def swap_cases(draw: DrawFn, subject: Subject) -> SwapCase:
    """Rules, and after them others in any order, each of which differs from the first in one thing: every change in
    every case, since what is drawn at random may leave one out of all of them."""
    shape = draw(shapes(subject))
    base = Rules(by_token=True, mode=draw(st.sampled_from((0, 1))), seed=draw(st.integers(0, 3)))
    changes = draw(st.permutations(sorted(CHANGES)))
    runs = [draw(alike(shape)) for _ in range(len(changes) + 1)]
    first = LifeCase(shape=shape, rules=base, arrivals=runs[0], seed=draw(st.integers(0, 63)))
    rules = tuple(CHANGES[change](base) for change in changes)
    return SwapCase(first=first, rules=rules, runs=tuple(runs[1:]))


CACHE_ISOLATED = Property(
    id="cache.isolated",
    clause="CACHE-1",
    title="no request begins with a prefix of another mode, policy, setting, weight or user key",
    cases=swap_cases,
    check=check_isolated,
    counters=("refused", "shared"),
    examples=16,
)
CACHE_SHARED = Property(
    id="cache.shared",
    clause="CACHE-2",
    title="equal prefixes are shared, and never with tokens of a second mode",
    cases=lambda subject: st.one_of(life_cases(subject, modes=(0, 1, 2), by_token=(True,)), chain_cases(subject)),
    check=check_shared,
    counters=("shared", "certain", "second_mode_kept_out", "promotions"),
    examples=24,
)
CACHE_PRIVATE = Property(
    id="cache.private",
    clause="CACHE-3",
    title="a policy that looks beyond a row's prefix shares nothing between requests",
    cases=lambda subject: life_cases(subject, modes=(0, 1), by_token=(False,)),
    check=check_private,
    counters=("private", "refused", "retractions"),
    examples=16,
)
