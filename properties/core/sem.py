"""SEM-1: streams and logits equal the oracle's under the same tape, and the same call gives the same bits."""

from __future__ import annotations

import torch
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase, chunk_rows
from properties.compare import Envelope, check_shape, differing, outside
from properties.drive import copied, run
from properties.facts import place
from properties.oracle import Pass, oracle_of
from properties.property import Property, Subject
from properties.runtime import StepResult
from properties.violation import Violation
from vskipper.action import Action


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return schedules(bounds_of(subject.model, subject.runtime.capabilities))


def check_outputs(subject: Subject, case: ScheduleCase) -> None:
    answer = oracle_of(subject).answer(case)
    for step, ran in enumerate(run(subject, case)):
        check_result(subject, case, step, ran.result, answer.truth[step], answer.same[step])
        codes = {action for line in case.tapes[step].actions for action in line}
        subject.seen["mixed_passes"] += {int(Action.RUN), int(Action.PROJECT_ONLY)} <= codes
        subject.seen["rows"] += case.steps[step].rows
        subject.seen["decode_passes"] += all(chunk.phase == "decode" for chunk in case.steps[step].chunks)


def check_result(subject: Subject, case: ScheduleCase, step: int, result: StepResult, truth: Pass, same: Pass) -> None:
    """Hidden states of one pass, layer by layer, then its logits; raises Violation."""
    rule = Envelope.of_layers(subject.model.config.num_hidden_layers)
    if result.hidden is not None:
        check_shape(result.hidden, truth.result.hidden)
        for layer in range(len(result.hidden)):
            found = outside(result.hidden[layer], same.result.hidden[layer], truth.result.hidden[layer], rule)
            if found is not None:
                row, facts = found
                # the stream entering a layer is what the one before it left
                where = place(subject, case, step, row, layer - 1 if layer else None)
                raise Violation("SEM-1", _reason("wrong_hidden", result.hidden[layer][row]), where | facts)
    found = outside(result.logits, same.result.logits, truth.result.logits, rule)
    if found is not None:
        chunk, facts = found
        row = chunk_rows(case.steps[step])[chunk][-1]
        raise Violation("SEM-1", _reason("wrong_logits", result.logits[chunk]), place(subject, case, step, row) | facts)


def _reason(name: str, values: Tensor) -> str:
    return name if bool(torch.isfinite(values).all()) else "not_finite"


def check_repeatable(subject: Subject, case: ScheduleCase) -> None:
    """Two fresh sessions give the same bits, and a later pass leaves an earlier one's results alone."""
    kept: list[StepResult] = []
    first, second = run(subject, case, keep=kept), run(subject, case)
    for step, (one, two, held) in enumerate(zip(first, second, kept, strict=True)):
        for reason, other in (("output_overwritten", copied(held)), ("not_repeatable", two.result)):
            for name, got, expected in _tensors(other, one.result):
                found = differing(got, expected)
                if found is not None:
                    raise Violation("SEM-1", reason, {"step": step, "what": name} | found.facts())
        for layer, pairs in enumerate(zip(one.kv, two.kv, strict=True)):
            for part, name in enumerate("kv"):
                found = differing(pairs[1][part], pairs[0][part])
                if found is not None:
                    raise Violation(
                        "SEM-1", "not_repeatable", {"step": step, "what": f"{name}[{layer}]"} | found.facts()
                    )
        # a pass of zeros or NaN repeats whatever happens
        logits = one.result.logits
        subject.seen["passes"] += bool(torch.isfinite(logits).all()) and bool((logits != 0).any())


def _tensors(got: StepResult, expected: StepResult) -> list[tuple[str, Tensor, Tensor]]:
    pairs = [("logits", got.logits, expected.logits), ("actions", got.actions, expected.actions)]
    if got.hidden is not None and expected.hidden is not None:
        pairs.append(("hidden", got.hidden, expected.hidden))
    return pairs


SEM_OUTPUTS = Property(
    id="sem.outputs",
    clause="SEM-1",
    title="hidden states and logits equal the reference under the same tape",
    cases=cases,
    check=check_outputs,
    counters=("mixed_passes", "rows", "decode_passes"),
    compares="margin",
    examples=100,
)
SEM_REPEATABLE = Property(
    id="sem.repeatable",
    clause="SEM-1",
    title="the same passes give the same bits, and results keep theirs",
    cases=cases,
    check=check_repeatable,
    counters=("passes",),
    examples=30,
)
