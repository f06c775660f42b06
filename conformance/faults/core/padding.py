"""Faults of padding rows: clause GRAPH-3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from conformance.faults.fault import Fault
from conformance.runtimes.torch_runtime.rows import Rows
from vskipper.cohort import CohortPlan


def pads_count(original: Any) -> Any:
    def broken(actions: Tensor, valid: Tensor, out: CohortPlan) -> None:
        original(actions, torch.ones_like(valid), out)

    return broken


def _pads_to_last_slot(original: Any) -> Any:
    """Padding rows carry slot -1, which indexing takes for the last one."""

    def broken(plan: Any, page_size: int) -> Rows:
        rows: Rows = original(plan, page_size)
        slots = rows.out_cache_loc.clone()
        slots[plan.rows :] = -1
        return replace(rows, out_cache_loc=slots)

    return broken


def _scale_over_padding(original: Any) -> Any:
    """One quantisation step for all rows of the pass, padding included."""

    def broken(self: Any, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        x, h = original(self, hidden, residual)
        step = torch.nan_to_num(x, nan=1e3, posinf=1e3, neginf=1e3).abs().max() / 127
        return (x / step).round() * step, h

    return broken


def _old_padding_counts(original: Any) -> Any:
    """Padding is told by a zero hidden state, so padding with other contents counts as rows."""

    def broken(self: Any, x: Tensor, run: Any) -> Any:
        run.work.add(self.index, "kv_rows", (~run.valid & (x != 0).any(-1)).sum())
        return original(self, x, run)

    return broken


FAULTS = (
    executor_fault(
        id="cohort-counts-padding",
        title="padding rows are in a cohort",
        source="tokenspeed#969",
        seam="vskipper.execution.packed:plan_cohorts",
        patch=pads_count,
        killer="pad.inert",
        reason="pad_in_cohort",
        quiet=("kv.own_layer", "sem.outputs", "policy.declared"),
    ),
    Fault(
        id="pad-writes-last-slot",
        title="padding rows write to slot -1, the last one of the pool",
        source="vllm#43810",
        seam="conformance.runtimes.torch_runtime.session:build_rows",
        patch=_pads_to_last_slot,
        killer="pad.inert",
        reason="pad_written",
        quiet=("kv.own_layer", "sem.outputs", "map.layout"),
    ),
    Fault(
        id="scale-over-padding",
        title="one quantisation step for all rows, padding included",
        source="vllm#40047",
        seam="conformance.runtimes.torch_runtime.modules:TorchLayer.input_norm",
        patch=_scale_over_padding,
        killer="pad.inert",
        reason="pad_changes_output",
        quiet=("kv.footprint", "map.partition", "policy.declared"),
    ),
    executor_fault(
        id="padding-told-by-zeros",
        title="padding that holds something counts as rows",
        source="sglang#1469",
        seam="vskipper.execution.routed_layer:RoutedLayer._write_kv",
        patch=_old_padding_counts,
        killer="pad.inert",
        reason="pad_counted",
        quiet=("kv.own_layer", "sem.outputs", "map.partition"),
    ),
)
