"""Faults of cohort maps and of what is counted: clauses MAP-1, MAP-2 and WORK-1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from vskipper.action import Action
from vskipper.cohort import CohortPlan

PLAN = "vskipper.execution.packed:plan_cohorts"


def _last_row_lost(original: Any) -> Any:
    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        last = torch.arange(valid.numel()) == valid.sum() - 1
        original(actions, valid & ~(last & (valid.sum() > 1)), out)

    return broken


def _descending(original: Any) -> Any:
    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(actions, valid, out)
        for first, last in zip(out.offsets[:-1].tolist(), out.offsets[1:].tolist(), strict=True):
            out.rows[first:last] = out.rows[first:last].flip(0)

    return broken


def _tail_written(original: Any) -> Any:
    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(actions, valid, out)
        out.rows[int(out.offsets[-1]) :] = 0

    return broken


def _one_short(original: Any) -> Any:
    """The bound of the last cohort is one too small, as `<` for `<=` makes it."""

    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(actions, valid, out)
        out.offsets[-1] -= int(out.offsets[-1] > out.offsets[-2])

    return broken


def _swapped_cohorts(original: Any) -> Any:
    """RUN and PROJECT_ONLY exchange their rows, and their counts with them."""

    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        run, project = actions == int(Action.RUN), actions == int(Action.PROJECT_ONLY)
        swapped = torch.where(run, int(Action.PROJECT_ONLY), torch.where(project, int(Action.RUN), actions))
        original(swapped.to(actions.dtype), valid, out)

    return broken


def _first_plan_kept(original: Any) -> Any:
    """The first routed layer of a pass is planned; the others of the pass take over its cohorts."""
    kept: dict[int, CohortPlan] = {}

    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        # one mask a pass; holding it keeps its id its own
        first = kept.get(id(valid))
        if first is None:
            original(actions, valid, out)
            kept.clear()
            masks.append(valid)
            kept[id(valid)] = out
        else:
            out.rows.copy_(first.rows)
            out.offsets.copy_(first.offsets)

    masks: list[Tensor] = []
    return broken


FAULTS = (
    executor_fault(
        id="cohort-last-row-lost",
        title="the last row is in no cohort",
        source="vllm#7380",
        seam=PLAN,
        patch=_last_row_lost,
        killer="map.partition",
        reason="wrong_offsets",
        quiet=("kv.complete", "policy.declared"),
    ),
    executor_fault(
        id="cohort-descending",
        title="a cohort's rows are not ascending",
        source="maps built by atomics",
        seam=PLAN,
        patch=_descending,
        killer="map.partition",
        reason="wrong_order",
        quiet=("kv.complete", "work.counts", "sem.outputs"),
    ),
    executor_fault(
        id="cohort-tail-written",
        title="entries beyond the count are written",
        source="sglang#24743",
        seam=PLAN,
        patch=_tail_written,
        killer="map.partition",
        reason="beyond_count_written",
        quiet=("kv.complete", "work.counts", "sem.outputs"),
    ),
    executor_fault(
        id="cohort-one-short",
        title="the last cohort ends one row early",
        source="vllm#30850",
        seam=PLAN,
        patch=_one_short,
        killer="work.counts",
        reason="rows_missing",
        quiet=("kv.complete", "policy.declared"),
    ),
    executor_fault(
        id="cohort-exchanged",
        title="RUN and PROJECT_ONLY exchange their rows",
        source="SkipGPT, where class 1 means skip",
        seam=PLAN,
        patch=_swapped_cohorts,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=("kv.complete", "policy.declared"),
    ),
    executor_fault(
        id="cohort-of-first-layer",
        title="the first routed layer's cohorts serve all layers of the pass",
        source="sglang#16103",
        seam=PLAN,
        patch=_first_plan_kept,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=("kv.complete", "policy.declared"),
    ),
)
