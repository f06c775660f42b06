"""Faults of the judge in time: it compares the values that a pass had left when its runtime said that it had run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from properties import drive
from properties.registry import by_id
from properties.run import draw_cases, first_violation
from properties.runtime import StepResult
from tests.properties.broken import BrokenRuntime, Step
from tests.properties.late import Late
from tests.properties.tiny_subject import subject_of

# each compares outputs another way: with the oracle, with another run of the runtime, with what was there before
COMPARING = ("sem.outputs", "map.row_order", "pad.inert", "work.counts")


def changed(result: StepResult, change: Callable[[Tensor], Tensor]) -> StepResult:
    assert result.hidden is not None
    return replace(result, logits=change(result.logits), hidden=change(result.hidden), actions=change(result.actions))


def reason(property: str, runtime: BrokenRuntime) -> str | None:
    """Of the first violation in a few cases."""
    subject = subject_of(runtime=runtime)
    violation = first_violation(by_id(property), subject, draw_cases(by_id(property), subject, 4, 0))
    return None if violation is None else violation.reason


LATE = BrokenRuntime(lambda step: changed(step.run(), Late))
ON_ANOTHER_STREAM = BrokenRuntime(lambda step: changed(step.run(), lambda values: Late(values, joined=False)))


def test_a_late_tensor_is_there_after_a_copy_that_waits_and_not_before() -> None:
    values = torch.tensor([1.0, 2.0])
    assert torch.equal((Late(values) * 2).to("cpu"), values * 2)
    assert not Late(values).to("cpu", non_blocking=True).any()
    assert not (Late(values, joined=False) + Late(values)).to("cpu").any()
    with pytest.raises(AssertionError, match="not there yet"):
        bool((Late(values) == values).all())


@pytest.mark.parametrize("property", COMPARING)
def test_nothing_is_compared_before_a_copy_that_waits(property: str) -> None:
    assert reason(property, LATE) is None


def test_a_judge_whose_copies_do_not_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(tensors: Sequence[Tensor], device: Any) -> list[Tensor]:
        return [tensor.to(device, non_blocking=True) for tensor in tensors]

    monkeypatch.setattr(drive, "copies", hasty)
    assert reason("sem.outputs", LATE) == "wrong_hidden"


@pytest.mark.parametrize("property", ["sem.outputs", "work.counts"])
def test_work_that_nobody_waited_for_on_another_stream_is_not_taken_for_done(property: str) -> None:
    assert reason(property, ON_ANOTHER_STREAM) is not None


class Postponed(BrokenRuntime):
    """Says that a pass has run, and computes what `picks` of it names when the session is stepped again or closed: too
    late for its caller, in time for a judge that looks at the end."""

    def __init__(self, picks: Callable[[Step, StepResult], Sequence[Tensor]]) -> None:
        super().__init__(self._step)
        self._picks = picks
        self._waiting: list[tuple[Tensor, Tensor]] = []

    def open(self, *arguments: Any) -> Any:
        session = super().open(*arguments)
        close = session.close

        def close_late() -> None:
            self._catch_up()
            close()

        session.close = close_late  # type: ignore[method-assign]
        return session

    def _step(self, step: Step) -> StepResult:
        self._catch_up()
        result = step.run()
        self._waiting = [(tensor, tensor.clone()) for tensor in self._picks(step, result)]
        for tensor, _ in self._waiting:
            tensor.zero_()
        return result

    def _catch_up(self) -> None:
        for tensor, values in self._waiting:
            tensor.copy_(values)
        self._waiting = []


def hidden(step: Step, result: StepResult) -> Sequence[Tensor]:
    assert result.hidden is not None
    return [result.hidden]


def kv(step: Step, result: StepResult) -> Sequence[Tensor]:
    return [part for pair in step.kv for part in pair]


@pytest.mark.parametrize(("property", "picks"), [("sem.outputs", hidden), ("kv.own_layer", kv)])
def test_what_is_computed_after_the_step_is_not_seen(property: str, picks: Any) -> None:
    assert reason(property, Postponed(picks)) is not None


def test_a_judge_that_looks_at_the_end_would_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "copied", lambda result: result)
    assert reason("sem.outputs", Postponed(hidden)) is None
