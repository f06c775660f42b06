"""A case played on the engine under test, one command at the iteration that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from properties.batch import token
from properties.lifecycle.case import FORGED, USERS, Arrival, LifeCase
from properties.lifecycle.engine import (
    Abort,
    Command,
    History,
    LifecycleEngine,
    LifecycleSession,
    Served,
    Shape,
    Submission,
    engine_of,
)
from properties.property import Subject

# requests of the common prefixes, far from those of any case
PREFIXES = 900


class Player:
    """A Control: what comes in at each iteration of a case. tokens and keys of a request may follow from what the
    engine did with one before it."""

    def __init__(self, session: LifecycleSession, case: LifeCase, vocab: int, *, logprobs: bool = False) -> None:
        self._session, self._case, self._vocab, self._logprobs = session, case, vocab, logprobs
        times = [*(each.at for each in case.arrivals), *(each.at for each in case.departures)]
        self._end = max(times, default=0)
        self.submitted: dict[int, Submission] = {}

    def __call__(self, iteration: int) -> Sequence[Command] | None:
        if iteration > self._end:
            return None
        case = self._case
        for number, arrival in enumerate(case.arrivals):
            if arrival.at == iteration:
                self.submitted[number] = self._submission(number, arrival)
        new = [each for number, each in self.submitted.items() if case.arrivals[number].at == iteration]
        gone = [Abort(name=case.name(each.request)) for each in case.departures if each.at == iteration]
        return [*new, *gone]

    def _submission(self, number: int, arrival: Arrival) -> Submission:
        return Submission(
            name=self._case.name(number),
            tokens=self._prompt(number, arrival),
            outputs=arrival.outputs,
            user_key=self._user_key(number, arrival),
            logprobs=self._logprobs,
        )

    def _prompt(self, number: int, arrival: Arrival) -> tuple[int, ...]:
        """At most half the pool, so that every request can end."""
        seed = self._case.seed
        own = tuple(token(seed, number, position, self._vocab) for position in range(arrival.own))
        if arrival.after is None or arrival.after not in self.submitted:
            prefix = (token(seed, PREFIXES + arrival.prefix, i, self._vocab) for i in range(arrival.shared))
            return (*prefix, *own)
        before = self.submitted[arrival.after]
        said = self._session.outputs_of(before.name) if self._began(before, number) else ()
        kept = self._case.shape.tokens // 2 - len(own)
        return (*(*before.tokens, *said)[:kept], *own)

    def _user_key(self, number: int, arrival: Arrival) -> str | None:
        if arrival.user < FORGED:
            key = USERS[arrival.user]
            return key if key or self._session.empty_keys else None
        before = self.submitted.get(number - 1)
        return self._session.key_of(before.name) if before is not None and self._began(before, number) else None

    def _began(self, before: Submission, number: int) -> bool:
        """Whether the engine has been told of it: those of one iteration reach it together."""
        index = next(i for i, each in self.submitted.items() if each is before)
        return self._case.arrivals[index].at < self._case.arrivals[number].at


@contextmanager
def opened(
    subject: Subject, shape: Shape, served: Served, *, stock: bool = False, engine: LifecycleEngine | None = None
) -> Iterator[LifecycleSession]:
    """An idle engine that serves `served`. engine: another one than the subject's."""
    session = (engine or engine_of(subject)).open(subject.model, shape, stock=stock)
    try:
        session.serve(served)
        yield session
    finally:
        session.close()


def play(subject: Subject, case: LifeCase) -> History:
    """One run of the case on an engine with an empty prefix cache."""
    with opened(subject, case.shape, case.rules.served()) as session:
        return session.run(Player(session, case, subject.model.config.vocab_size))
