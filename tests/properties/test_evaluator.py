"""Faults of the judge itself: what would make every property pass, or pass for nothing, is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from conformance.runtimes.reference import ReferenceRuntime
from properties import run
from properties.core import kv_writes
from properties.oracle import oracle_of
from properties.property import Property, Subject
from properties.registry import CORE, by_id
from properties.run import draw_cases, first_violation, run_property
from properties.runtime import StepResult
from properties.violation import Violation
from tests.properties.broken import BrokenRuntime, Step
from tests.properties.tiny_subject import subject_of


def _reason(property: str, runtime: Any) -> str:
    outcome = run_property(by_id(property), subject_of(runtime=runtime), examples=30, seed=0, shrink=False)
    return outcome.violation.reason if outcome.violation else outcome.status


def test_outputs_that_are_the_oracles_own_memory_are_refused() -> None:
    def copy_the_answer(step: Step) -> StepResult:
        hidden = oracle_of(subject).answer(case).same[step.number].result.hidden
        return replace(step.run(), hidden=hidden)

    subject = subject_of(runtime=BrokenRuntime(copy_the_answer))
    case = draw_cases(by_id("sem.outputs"), subject, 5, 0)[-1]
    violation = first_violation(by_id("sem.outputs"), subject, [case])
    assert violation is not None and violation.reason == "aliases_oracle"


def test_a_case_that_fails_for_the_reason_asked_for_is_found_behind_others() -> None:
    subject = subject_of()

    def fails(subject: Any, case: int) -> None:
        if case:
            raise Violation("SEM-1", f"reason_{case}", {})

    rule = replace(by_id("sem.outputs"), check=fails)
    for reason, found in ((None, "reason_1"), ("reason_2", "reason_2"), ("reason_3", "reason_1")):
        violation = first_violation(rule, subject, (0, 1, 2, 1), reason)
        assert violation is not None and violation.reason == found
    assert first_violation(rule, subject, (0, 0), "reason_1") is None


def test_a_runtime_that_zeroes_its_inputs_does_not_zero_the_oracles() -> None:
    subject = subject_of()
    own = {name: tensor.clone() for name, tensor in subject.model.tensors.items()}
    model = replace(subject.model, tensors=own)

    class Zeroing(ReferenceRuntime):
        def open(self, *arguments: Any) -> Any:
            for tensor in own.values():
                tensor.zero_()
            return super().open(*arguments)

    spoilt = replace(subject, model=model, runtime=Zeroing())
    assert first_violation(by_id("sem.outputs"), spoilt, draw_cases(by_id("sem.outputs"), spoilt, 5, 0)) is not None
    assert run_property(by_id("sem.repeatable"), spoilt, examples=5, seed=0).status == "vacuous"


NAN_BLIND = (
    "map.row_order",
    "map.layout",
    "map.batch",
    "sem.all_run_is_dense",
    "sem.outputs",
    "pad.inert",
    "map.fresh",
)


@pytest.mark.parametrize("property", NAN_BLIND)
def test_nan_equals_nan_nowhere(property: str) -> None:
    def all_nan(step: Step) -> StepResult:
        result = step.run()
        assert result.hidden is not None
        return replace(
            result, hidden=torch.full_like(result.hidden, torch.nan), logits=torch.full_like(result.logits, torch.nan)
        )

    outcome = run_property(
        by_id(property), subject_of(runtime=BrokenRuntime(all_nan)), examples=10, seed=0, shrink=False
    )
    assert outcome.status == "failed"


@pytest.mark.parametrize("property", ["sem.repeatable", "sem.skipped_attention"])
def test_comparisons_of_a_runtime_with_itself_are_vacuous_on_nan(property: str) -> None:
    def all_nan(step: Step) -> StepResult:
        result = step.run()
        assert result.hidden is not None
        return replace(
            result, hidden=torch.full_like(result.hidden, torch.nan), logits=torch.full_like(result.logits, torch.nan)
        )

    assert _reason(property, BrokenRuntime(all_nan)) == "vacuous"


def test_a_diff_of_a_snapshot_that_aliases_the_pool_is_vacuous(monkeypatch: pytest.MonkeyPatch) -> None:
    def alias(kv: Any) -> Any:
        return tuple(tuple(part.view(torch.uint8).flatten(1) for part in pair) for pair in kv)

    monkeypatch.setattr(kv_writes, "snapshot", alias)
    outcome = run_property(by_id("kv.footprint"), subject_of(), examples=5, seed=0)
    assert (outcome.status, outcome.counters["owned_changed"]) == ("vacuous", 0)


def _property(cases: Any, check: Any, counters: tuple[str, ...] = ()) -> Property:
    return Property(id="test.it", clause="IN-1", title="", cases=lambda subject: cases, check=check, counters=counters)


def _nothing(subject: Subject, case: Any) -> None:
    return None


def test_cases_that_are_all_discarded_are_vacuous() -> None:
    outcome = run_property(_property(st.integers().filter(lambda n: False), _nothing), subject_of(), examples=5, seed=0)
    assert (outcome.status, outcome.examples) == ("vacuous", 0)


def test_a_check_that_never_met_its_case_is_vacuous_and_says_which() -> None:
    outcome = run_property(_property(st.integers(), _nothing, ("met",)), subject_of(), examples=5, seed=0)
    assert (outcome.status, outcome.detail, outcome.counters) == ("vacuous", "never seen: met", {"met": 0})


def test_given_cases_come_first_and_count() -> None:
    checked: list[int] = []

    def check(subject: Subject, case: int) -> None:
        checked.append(case)
        subject.seen["met"] += case > 100
        if case > 1000:
            raise Violation("IN-1", "large", {})

    rule = _property(st.integers(0, 9), check, ("met",))
    passed = run_property(rule, subject_of(), examples=3, seed=0, first=(200, 300))
    assert (passed.status, passed.examples, checked[:2]) == ("passed", 5, [200, 300])
    failed = run_property(rule, subject_of(), examples=3, seed=0, first=(2000, 300))
    assert (failed.status, failed.case, checked[-1]) == ("failed", 2000, 2000)


@pytest.mark.parametrize(("can", "status", "counters"), [(True, "vacuous", {"met": 0}), (False, "passed", {})])
def test_a_counter_is_asked_of_a_subject_that_can_raise_it(can: bool, status: str, counters: dict[str, int]) -> None:
    rule = replace(_property(st.integers(), _nothing, ("met",)), only_where={"met": lambda subject: can})
    outcome = run_property(rule, subject_of(), examples=5, seed=0)
    assert (outcome.status, outcome.counters) == (status, counters)


def test_counters_of_one_run_do_not_serve_the_next() -> None:
    subject = subject_of()
    subject.seen["met"] = 7
    assert run_property(_property(st.integers(), _nothing, ("met",)), subject, examples=5, seed=0).status == "vacuous"


def test_a_check_that_breaks_down_has_failed_with_its_traceback() -> None:
    def check(subject: Subject, case: int) -> None:
        raise ZeroDivisionError("by zero")

    outcome = run_property(_property(st.integers(), check), subject_of(), examples=5, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == "crash:ZeroDivisionError"
    assert outcome.status == "failed" and "by zero" in outcome.detail


def test_drawing_that_breaks_down_has_failed() -> None:
    def cases(subject: Subject) -> Any:
        raise LookupError("no cases")

    broken = replace(_property(None, _nothing), cases=cases)
    outcome = run_property(broken, subject_of(), examples=5, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == "crash:LookupError"


def test_a_failure_that_comes_and_goes_has_failed() -> None:
    calls: Iterator[int] = iter(range(10_000))

    def check(subject: Subject, case: int) -> None:
        if next(calls) == 3:
            raise Violation("IN-1", "once", {})

    outcome = run_property(_property(st.integers(), check), subject_of(), examples=50, seed=0)
    assert outcome.status == "failed" and outcome.violation is not None and outcome.violation.reason == "once"


def test_shrinking_keeps_the_reason_it_found() -> None:
    def check(subject: Subject, case: int) -> None:
        if case > 1000:
            raise Violation("IN-1", "large", {})
        if case > 10 and subject.seen["large"]:
            raise Violation("IN-1", "small", {})

    def check_both(subject: Subject, case: int) -> None:
        subject.seen["large"] += case > 1000
        check(subject, case)

    outcome = run_property(_property(st.integers(0, 10**6), check_both), subject_of(), examples=100, seed=0)
    assert outcome.violation is not None
    assert (outcome.violation.reason, outcome.case) == ("large", 1001)


def test_where_the_gpu_is_lost_the_first_failure_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []

    def check(subject: Subject, case: int) -> None:
        checked.append(case)
        if case > 1000:
            raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(run, "gpu_lost", lambda: True)
    outcome = run_property(_property(st.integers(0, 10**6), check), subject_of(), examples=100, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == "crash:RuntimeError"
    assert outcome.case > 1000 and sum(case > 1000 for case in checked) == 1


@pytest.mark.parametrize("property", CORE, ids=lambda property: property.id)
def test_cases_follow_from_the_seed(property: Property) -> None:
    subject = subject_of()
    first, again, other = (draw_cases(property, subject, 12, seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
