"""Positive controls of MAP-1 to MAP-3, GRAPH-3 and WORK-1."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from properties.registry import by_id
from properties.run import run_property
from properties.runtime import LayerWork, StepResult
from tests.properties.broken import Break, BrokenRuntime, Step
from tests.properties.tiny_subject import subject_of


def _cohorts(spoil: object) -> Break:
    def run(step: Step) -> StepResult:
        result = step.run()
        maps = [(rows.clone(), offsets.clone()) for rows, offsets in result.cohorts]
        for rows, offsets in maps:
            spoil(rows, offsets)  # type: ignore[operator]
        return replace(result, cohorts=tuple(maps))

    return run


def _offset_moved(rows: Tensor, offsets: Tensor) -> None:
    offsets[2] = offsets[4]
    offsets[3] = offsets[4]


def _row_twice(rows: Tensor, offsets: Tensor) -> None:
    if offsets[4] > 1:
        rows[0] = rows[1]


def _descending(rows: Tensor, offsets: Tensor) -> None:
    for start, stop in zip(offsets.tolist(), offsets.tolist()[1:], strict=False):
        rows[start:stop] = rows[start:stop].flip(0)


def _tail_written(rows: Tensor, offsets: Tensor) -> None:
    rows[int(offsets[4]) :] = 0


def _padding_joins(rows: Tensor, offsets: Tensor) -> None:
    rows[int(offsets[4]) :] = torch.arange(int(offsets[4]), rows.numel(), dtype=rows.dtype)
    offsets[4] = rows.numel()


class _Stale:
    """The logits of the pass before, where there are as many."""

    def __init__(self) -> None:
        self.last: Tensor | None = None

    def __call__(self, step: Step) -> StepResult:
        result = step.run()
        last = self.last if step.number else None
        self.last = result.logits
        return result if last is None or last.shape != result.logits.shape else replace(result, logits=last)


def _by_place(step: Step) -> StepResult:
    result = step.run()
    place = torch.arange(len(result.logits), dtype=result.logits.dtype)
    return replace(result, logits=result.logits + 1e-6 * place[:, None])


def _by_slot(step: Step) -> StepResult:
    result = step.run()
    slots = torch.tensor([row.slot for row in step.rows if row.last], dtype=result.logits.dtype)
    return replace(result, logits=result.logits + 1e-3 * slots[:, None])


def _by_crowd(step: Step) -> StepResult:
    result = step.run()
    return replace(result, logits=result.logits * (1 + 1e-6 * len(step.plan.chunks)))


def _work(**changed: int) -> Break:
    def run(step: Step) -> StepResult:
        result = step.run()
        more = {name: LayerWork.__slots__.index(name) for name in changed}
        assert set(more) <= set(LayerWork.__slots__)
        work = tuple(replace(w, **{n: getattr(w, n) + d for n, d in changed.items()}) for w in result.work)
        return replace(result, work=work)

    return run


def _no_work(step: Step) -> StepResult:
    return replace(step.run(), work=())


def _records_run(step: Step) -> StepResult:
    result = step.run()
    return replace(result, actions=torch.full_like(result.actions, 3))


def _pad_counted(step: Step) -> StepResult:
    result = step.run()
    return replace(result, work=tuple(replace(w, mlp=w.mlp + step.plan.padding) for w in result.work))


def _pad_written(step: Step) -> StepResult:
    result = step.run()
    if step.plan.padding:
        step.kv[2][0][-1] = 7.0
    return result


def _pad_returned(step: Step) -> StepResult:
    result = step.run()
    padding = torch.zeros(len(result.actions), step.plan.padding, dtype=torch.uint8)
    return replace(result, actions=torch.cat([result.actions, padding], 1))


def _filled(value: dict[str, float]) -> Break:
    def run(step: Step) -> StepResult:
        result = step.run()
        return replace(result, logits=result.logits + value[step.plan.fill] * (step.plan.padding > 0))

    return run


def _pads_counted_in_result(step: Step) -> StepResult:
    result = step.run()
    return replace(result, logits=result.logits * (1 + 1e-6 * step.plan.padding))


CASES = [
    ("map.partition", BrokenRuntime(_cohorts(_offset_moved)), "wrong_offsets"),
    ("map.partition", BrokenRuntime(_cohorts(_row_twice)), "not_partition"),
    ("map.partition", BrokenRuntime(_cohorts(_descending)), "wrong_order"),
    ("map.partition", BrokenRuntime(_cohorts(_tail_written)), "beyond_count_written"),
    ("map.fresh", BrokenRuntime(_Stale()), "stale_map"),
    ("map.row_order", BrokenRuntime(_by_place), "row_order_changes_result"),
    ("map.layout", BrokenRuntime(_by_slot), "layout_changes_result"),
    ("map.layout", BrokenRuntime(_by_slot, row_invariant=False), "layout_changes_result"),
    ("map.batch", BrokenRuntime(_by_crowd), "batch_changes_result"),
    ("work.counts", BrokenRuntime(_work(mlp=-1)), "rows_missing"),
    ("work.counts", BrokenRuntime(_work(projector=1)), "rows_extra"),
    ("work.counts", BrokenRuntime(_no_work), "no_routed_work"),
    ("work.counts", BrokenRuntime(_records_run), "actions_differ"),
    ("work.counts", BrokenRuntime(_cohorts(_offset_moved)), "cohorts_differ"),
    ("pad.inert", BrokenRuntime(_cohorts(_padding_joins)), "pad_in_cohort"),
    ("pad.inert", BrokenRuntime(_pad_counted), "pad_counted"),
    ("pad.inert", BrokenRuntime(_pad_written), "pad_written"),
    ("pad.inert", BrokenRuntime(_pad_returned), "pad_returned"),
    ("pad.inert", BrokenRuntime(_filled({"zero": 0, "old": 1, "nan": 1, "inf": 1})), "pad_changes_output"),
    ("pad.inert", BrokenRuntime(_filled({"zero": 0, "old": 0, "nan": torch.nan, "inf": torch.nan})), "nan_propagated"),
    ("pad.inert", BrokenRuntime(_pads_counted_in_result), "pad_count_changes_output"),
]


@pytest.mark.parametrize(
    ("property", "runtime", "reason"), CASES, ids=[f"{c[0]}-{c[2]}-{i}" for i, c in enumerate(CASES)]
)
def test_seen_for_its_reason(property: str, runtime: BrokenRuntime, reason: str) -> None:
    outcome = run_property(by_id(property), subject_of(runtime=runtime), examples=40, seed=0, shrink=False)
    assert outcome.violation is not None, outcome
    assert (outcome.status, outcome.violation.reason) == ("failed", reason), outcome.violation
