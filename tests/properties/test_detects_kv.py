"""Positive controls of KV-1 to KV-4: each broken pool is seen, for its exact reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from properties.registry import by_id
from properties.run import run_property
from properties.runtime import StepResult
from reference.plan import PoolLayout
from reference.rope import inverse_frequencies, rotate
from tests.properties.broken import Break, BrokenRuntime, Step
from tests.properties.tiny_subject import subject_of


def _after(spoil: Callable[[Step], None]) -> Break:
    def run(step: Step) -> StepResult:
        result = step.run()
        spoil(step)
        return result

    return run


def _unwritten(step: Step) -> None:
    for layer, row in step.skipped()[:1]:
        for part in step.kv[layer]:
            part[step.rows[row].slot] = torch.nan


def _half_written(step: Step) -> None:
    for layer, row in step.skipped()[:1]:
        step.kv[layer][1][step.rows[row].slot, 1] = torch.nan


def _infinite(step: Step) -> None:
    step.kv[0][0][step.rows[0].slot] = torch.inf


def _counts_one_more(step: Step) -> StepResult:
    result = step.run()
    return replace(result, work=tuple(replace(work, kv_rows=work.kv_rows + 1) for work in result.work))


def _writes_beyond(step: Step) -> None:
    step.kv[3][1][max(row.slot for row in step.rows) + 1] += 1


def _writes_first_slot_of_pool(step: Step) -> None:
    step.kv[0][0][step.layout.page_size] += 1


def _next_position(step: Step) -> None:
    frequencies = inverse_frequencies(step.model.config, step.model.dtype)
    for layer, row in step.skipped():
        keys, slot = step.kv[layer][0], step.rows[row].slot
        keys[slot] = rotate(keys[slot], 1, frequencies)


def _layer_below(step: Step) -> None:
    for layer, row in step.skipped():
        for part in range(2):
            step.kv[layer][part][step.rows[row].slot] = step.kv[layer - 1][part][step.rows[row].slot]


def _rows_swapped(step: Step) -> None:
    slots = [row.slot for row in step.rows[:2]]
    for part in step.kv[4]:
        part[slots] = part[slots[::-1]]


def _values_off(step: Step) -> None:
    for layer, row in step.skipped():
        step.kv[layer][1][step.rows[row].slot] += 1e-3


def _project_rows_unscaled(step: Step) -> None:
    for layer, row in step.skipped():
        for part, scale in enumerate((step.layout.k_scale, step.layout.v_scale)):
            step.kv[layer][part][step.rows[row].slot] *= scale


def _scaled_behind_the_readers_back(step: Step) -> None:
    slots = [row.slot for row in step.rows]
    for pair in step.kv:
        for part, scale in zip(pair, (step.layout.k_scale, step.layout.v_scale), strict=True):
            part[slots] /= scale


def _no_scales(layout: PoolLayout) -> PoolLayout:
    return replace(layout, k_scale=1.0, v_scale=1.0)


def _in_bfloat16(layout: PoolLayout) -> PoolLayout:
    return replace(layout, kv_dtype="bfloat16")


CASES = [
    ("kv.complete", BrokenRuntime(_after(_unwritten)), "missing_write"),
    ("kv.complete", BrokenRuntime(_after(_half_written)), "partial_write"),
    ("kv.complete", BrokenRuntime(_after(_infinite)), "not_finite"),
    ("kv.complete", BrokenRuntime(_counts_one_more), "kv_rows_mismatch"),
    ("kv.footprint", BrokenRuntime(_after(_writes_beyond)), "foreign_slot_written"),
    ("kv.footprint", BrokenRuntime(_after(_writes_first_slot_of_pool)), "foreign_slot_written"),
    ("kv.own_layer", BrokenRuntime(_after(_next_position)), "wrong_position"),
    ("kv.own_layer", BrokenRuntime(_after(_layer_below)), "wrong_layer"),
    ("kv.own_layer", BrokenRuntime(_after(_rows_swapped)), "wrong_row"),
    ("kv.own_layer", BrokenRuntime(_after(_values_off)), "wrong_value"),
    ("kv.scales", BrokenRuntime(_after(_project_rows_unscaled)), "scale_not_applied"),
    ("kv.scales", BrokenRuntime(_after(_scaled_behind_the_readers_back), open_layout=_no_scales), "scale_not_read"),
    ("kv.scales", BrokenRuntime(Step.run, open_layout=_in_bfloat16), "kv_dtype_differs"),
]


@pytest.mark.parametrize(
    ("property", "runtime", "reason"), CASES, ids=[f"{c[0]}-{c[2]}-{i}" for i, c in enumerate(CASES)]
)
def test_seen_for_its_reason(property: str, runtime: BrokenRuntime, reason: str) -> None:
    outcome = run_property(by_id(property), subject_of(runtime=runtime), examples=40, seed=0, shrink=False)
    assert outcome.violation is not None, outcome
    assert (outcome.status, outcome.violation.reason) == ("failed", reason), outcome.violation


def test_a_missing_write_is_shrunk_to_one_row() -> None:
    subject = subject_of(runtime=BrokenRuntime(_after(_unwritten)))
    outcome = run_property(by_id("kv.complete"), subject, examples=40, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == "missing_write"
    assert outcome.violation.facts["action"] == "PROJECT_ONLY"
    assert len(outcome.case.steps) == 1 and outcome.case.steps[0].rows == 1
    line = outcome.violation.line()
    assert line.startswith("clause=KV-1 reason=missing_write step=0 layer=2 row=0 request=r0")
