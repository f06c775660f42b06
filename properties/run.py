"""Drives one property with Hypothesis to an outcome: passed, failed with its smallest case, vacuous or unsupported."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from hypothesis.errors import Flaky, Unsatisfiable

from properties import margin
from properties.core.policy_hooks import violation_of_policy
from properties.property import Property, Subject
from properties.violation import Violation
from vskipper.errors import PolicyError

# few examples can miss a common case by luck, and equal seeds draw other cases where other source files lie beside
ROUNDS = 5
ROUND_STEP = 7919
Status = Literal["passed", "failed", "vacuous", "unsupported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """examples: cases that were checked, shrinking not counted. counters: what was seen before the first failure.
    margin: the worst error as a share of what is allowed, None without an envelope. violation, case: of the smallest
    failing case. detail: a traceback, the missing counters or the missing capability."""

    property: str
    status: Status
    examples: int
    counters: Mapping[str, int]
    margin: float | None = None
    violation: Violation | None = None
    case: Any = None
    detail: str = ""


class _Checker:
    """One property over many cases. Once a case has failed, only the same failure counts: shrinking may not wander off
    to another reason."""

    def __init__(self, property: Property, subject: Subject) -> None:
        self.property = property
        self.subject = replace(subject, seen=Counter())
        # all, until the subject has been asked
        self.demanded = property.counters
        self.examples = 0
        self.failed: tuple[Violation, str, Any] | None = None
        self.counters: Mapping[str, int] = {}
        self._gpu_lost = False

    def __call__(self, case: Any) -> None:
        if self._gpu_lost:
            # every case would fail now: the one that was first is the smallest there is
            return
        found = violation_of(self.property, self.subject, case)
        if self.failed is None:
            self.examples += 1
            self.counters = dict(self.subject.seen)
        if found is None:
            return
        violation, detail = found
        self._gpu_lost = gpu_lost()
        if self.failed is not None and violation.reason != self.failed[0].reason:
            reject()
        self.failed = (violation, detail, case)
        raise violation

    def missing(self) -> list[str]:
        """Demanded counters that nothing has raised."""
        return [name for name in self.demanded if self.counters.get(name, 0) <= 0]


def gpu_lost() -> bool:
    """Whether the GPU refuses this process everything from now on, as after an access to memory that is nobody's."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def run_property(
    property: Property, subject: Subject, *, examples: int, seed: int, shrink: bool = True, first: Iterable[Any] = ()
) -> Outcome:
    """Check the cases in `first`, then `examples` drawn ones, of which the first failure is shrunk to its smallest
    form. While a vacuity counter is still at 0 as many are drawn again, ROUNDS times in all: only what then never
    occurred is vacuous."""
    checker = _Checker(property, subject)
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    with margin.recorded() as worst:
        try:
            lacking = property.unsupported(subject)
            if lacking is not None:
                return Outcome(property=property.id, status="unsupported", examples=0, counters={}, detail=lacking)
            checker.demanded = property.demanded(subject)
            with suppress(Violation):
                for case in first:
                    checker(case)
            for extra in range(ROUNDS):
                if checker.failed is not None or (extra > 0 and not checker.missing()):
                    break
                _drive(property, checker.subject, checker, examples, seed + extra * ROUND_STEP, phases)
        except Exception as error:
            # drawing broke down, before there was a case
            checker.failed = (*_crash(property, error), None)
    return _outcome(property, subject, checker, worst.worst)


def _outcome(property: Property, subject: Subject, checker: _Checker, worst: float | None) -> Outcome:
    subject.seen.update(checker.counters)
    counters = _named(checker.demanded, checker.counters)
    outcome = Outcome(property=property.id, status="passed", examples=checker.examples, counters=counters)
    if checker.failed is not None:
        violation, detail, case = checker.failed
        return replace(outcome, status="failed", violation=violation, case=case, detail=detail)
    missing = checker.missing()
    if missing or checker.examples == 0:
        return replace(outcome, status="vacuous", margin=worst, detail=f"never seen: {', '.join(missing) or 'a case'}")
    return replace(outcome, margin=worst)


def _named(demanded: Iterable[str], seen: Mapping[str, int]) -> dict[str, int]:
    """The demanded counters first, at 0 where nothing was seen, then whatever else occurred."""
    return {name: seen.get(name, 0) for name in demanded} | {k: v for k, v in seen.items() if v > 0}


def violation_of(property: Property, subject: Subject, case: Any) -> tuple[Violation, str] | None:
    """One case: what it violates and a traceback where the check itself broke down; None when it holds."""
    try:
        property.check(subject, case)
    except Violation as violation:
        return violation, ""
    except PolicyError as error:
        return violation_of_policy(error), traceback.format_exc()
    except Exception as error:
        return _crash(property, error)
    return None


def _crash(property: Property, error: Exception) -> tuple[Violation, str]:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    facts = {"at": f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}", "error": str(error)[:200]}
    text = "".join(traceback.format_exception(error))
    return Violation(property.clause, f"crash:{type(error).__name__}", facts), text


def first_violation(
    property: Property, subject: Subject, cases: Iterable[Any], reason: str | None = None
) -> Violation | None:
    """The first case that fails, without Hypothesis; a check that breaks down is a violation too. reason: the first
    that fails for it, where one does."""
    first: Violation | None = None
    for case in cases:
        found = violation_of(property, subject, case)
        if found is None:
            continue
        if reason is None or found[0].reason == reason:
            return found[0]
        first = first or found[0]
    return first


def draw_cases(property: Property, subject: Subject, count: int, seed: int) -> tuple[Any, ...]:
    """Up to `count` cases, the same for the same seed; nothing is checked."""
    cases: list[Any] = []
    if property.unsupported(subject) is None:
        _drive(property, subject, cases.append, count, seed, (Phase.generate,))
    return tuple(cases[:count])


def _drive(property: Property, subject: Subject, check: Any, examples: int, number: int, phases: Any) -> None:
    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(property.cases(subject))
    def body(case: Any) -> None:
        check(case)

    # the outcome is the checker's to tell: nothing drawn leaves it without examples, and what fails once in a while
    # has failed
    try:
        body()
    except (Violation, Unsatisfiable, Flaky):
        return
