"""Faults of what a run says of itself: clause WORK-1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from vskipper.action import Action
from vskipper.cohort import CohortPlan
from vskipper.policy import Route


def _forced_dense(original: Any) -> Any:
    """The executor runs every row dense, and the tape still says what the policy asked for."""

    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(torch.full_like(actions, int(Action.RUN)), valid, out)

    return broken


def _tape_records_run(original: Any) -> Any:
    def broken(self: Any, layer: int, route: Route) -> None:
        original(self, layer, replace(route, actions=torch.full_like(route.actions, int(Action.RUN))))

    return broken


def _work_not_counted(original: Any) -> Any:
    """Work counted for the first routed layer only."""

    def broken(self: Any, index: int, branch: str, rows: Tensor | int) -> None:
        if index == 0:
            original(self, index, branch, rows)

    return broken


FAULTS = (
    executor_fault(
        id="executor-forced-dense",
        title="every row runs dense, the tape says otherwise",
        source="arXiv:2609.37062, run with 16,702 passes and no skip",
        seam="vskipper.execution.packed:plan_cohorts",
        patch=_forced_dense,
        killer="work.counts",
        reason="rows_extra",
        quiet=("kv.complete", "policy.declared"),
    ),
    executor_fault(
        id="tape-records-run",
        title="the tape says RUN for every row",
        source="counters that a deleted variable switched off",
        seam="vskipper.tape:RouteTape.write",
        patch=_tape_records_run,
        killer="work.counts",
        reason="actions_differ",
        quiet=("kv.complete", "sem.outputs", "map.partition"),
    ),
    executor_fault(
        id="work-of-first-layer",
        title="work is counted at the first routed layer only",
        source="TensorRT-LLM#17110",
        seam="vskipper.execution.work:WorkCounters.add",
        patch=_work_not_counted,
        killer="kv.complete",
        reason="kv_rows_mismatch",
        quiet=("sem.outputs", "map.partition"),
    ),
)
