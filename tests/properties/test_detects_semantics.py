"""Positive controls of SEM-1 to SEM-4, on the tiny model with forced routes and as the model that is certified."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from properties.registry import by_id
from properties.run import run_property
from properties.runtime import StepResult
from tests.properties.broken import Break, BrokenRuntime, Step
from tests.properties.tiny_subject import subject_of


def _hidden(change: float, action: int) -> Break:
    """Rows of one action leave their layer with `change` added."""

    def run(step: Step) -> StepResult:
        result = step.run()
        assert result.hidden is not None
        hidden = result.hidden.clone()
        for layer, row in step.skipped(action):
            hidden[layer + 1, row] += change
        return replace(result, hidden=hidden)

    return run


def _logits(factor: float) -> Break:
    def run(step: Step) -> StepResult:
        result = step.run()
        return replace(result, logits=result.logits * factor)

    return run


def _one_chunk_too_many(step: Step) -> StepResult:
    result = step.run()
    assert result.hidden is not None
    return replace(result, hidden=torch.cat([result.hidden, result.hidden[:1]]))


class _Noise:
    """Other bits at every call of a process."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: Step) -> StepResult:
        self.calls += 1
        result = step.run()
        return replace(result, logits=result.logits * (1 + 1e-6 * self.calls))


class _OneBuffer:
    """All passes return the same memory."""

    def __init__(self) -> None:
        self.buffer = torch.zeros(8, 128)

    def __call__(self, step: Step) -> StepResult:
        result = step.run()
        self.buffer[: len(result.logits)] = result.logits
        return replace(result, logits=self.buffer[: len(result.logits)])


def _leaks(step: Step) -> StepResult:
    """Attention of PROJECT_ONLY rows is multiplied by zero in place of being left out."""
    result = step.run()
    assert result.hidden is not None
    hidden = result.hidden.clone()
    for layer, row in step.skipped(0) + step.skipped(2):
        hidden[layer + 1, row] += 0.0 * step.kv[layer][1][list(step.rows[row].context)].sum()
    return replace(result, hidden=hidden)


def _dense_is_other(step: Step) -> StepResult:
    result = step.run()
    return replace(result, logits=result.logits * (1 + 1e-6)) if step.mode == "dense" else result


def _gate_always_hard(step: Step) -> StepResult:
    if step.tape is not None:
        step.tape = replace(step.tape, eighths=None)
    return step.run()


def _weights_exchanged(step: Step) -> StepResult:
    if step.tape is not None and step.tape.eighths is not None:
        step.tape = replace(step.tape, eighths=tuple(tuple(8 - w for w in line) for line in step.tape.eighths))
    return step.run()


def _says_other_routes(step: Step) -> StepResult:
    result = step.run()
    return replace(result, actions=3 - result.actions) if step.mode == "routed" else result


def _first_kv_off(step: Step) -> StepResult:
    result = step.run()
    step.kv[-1][1][step.rows[-1].slot] *= 1.001
    return result


CASES = [
    ("sem.outputs", BrokenRuntime(_hidden(1e-3, 0)), "wrong_hidden"),
    ("sem.outputs", BrokenRuntime(_hidden(1e-3, 1)), "wrong_hidden"),
    ("sem.outputs", BrokenRuntime(_hidden(1e-3, 2)), "wrong_hidden"),
    ("sem.outputs", BrokenRuntime(_hidden(1e-3, 3)), "wrong_hidden"),
    ("sem.outputs", BrokenRuntime(_hidden(torch.nan, 3)), "not_finite"),
    ("sem.outputs", BrokenRuntime(_logits(1.0001)), "wrong_logits"),
    ("sem.outputs", BrokenRuntime(_one_chunk_too_many), "wrong_shape"),
    ("sem.repeatable", BrokenRuntime(_Noise()), "not_repeatable"),
    ("sem.repeatable", BrokenRuntime(_OneBuffer()), "output_overwritten"),
    ("sem.zero_projector", BrokenRuntime(_hidden(1e-6, 0)), "skipped_row_changed"),
    ("sem.skipped_attention", BrokenRuntime(_leaks), "skipped_attention_leaks"),
    ("sem.all_run_is_dense", BrokenRuntime(_dense_is_other), "all_run_differs"),
    ("gate.mode", BrokenRuntime(_gate_always_hard), "gate_mode_ignored"),
    ("gate.mode", BrokenRuntime(_weights_exchanged), "wrong_scale"),
    ("model.outputs", BrokenRuntime(_logits(1.0001)), "wrong_logits"),
    ("model.outputs", BrokenRuntime(_says_other_routes), "wrong_hidden"),
    ("model.outputs", BrokenRuntime(_first_kv_off), "wrong_value"),
    ("model.all_run_is_dense", BrokenRuntime(_dense_is_other), "all_run_differs"),
    ("model.routes", BrokenRuntime(_says_other_routes), "route_differs"),
]


@pytest.mark.parametrize(
    ("property", "runtime", "reason"), CASES, ids=[f"{c[0]}-{c[2]}-{i}" for i, c in enumerate(CASES)]
)
def test_seen_for_its_reason(property: str, runtime: BrokenRuntime, reason: str) -> None:
    outcome = run_property(by_id(property), subject_of(runtime=runtime), examples=40, seed=0, shrink=False)
    assert outcome.violation is not None, outcome
    assert (outcome.status, outcome.violation.reason) == ("failed", reason), outcome.violation


def test_a_wrong_row_is_named_with_its_layer_and_action() -> None:
    subject = subject_of(runtime=BrokenRuntime(_hidden(1e-3, 2)))
    outcome = run_property(by_id("sem.outputs"), subject, examples=40, seed=0)
    assert outcome.violation is not None
    assert outcome.violation.facts["action"] == "SKIP_ATTN"
    assert outcome.violation.facts["layer"] in subject.model.routed_layers
    assert outcome.case.steps[0].rows == 1
