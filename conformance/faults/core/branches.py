"""Faults of what a routed layer computes: clauses SEM-1 to SEM-4 and MAP-3."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from conformance.faults.fault import WRITES_AND_MAPS, Fault
from vskipper.action import Action
from vskipper.policy import Route


def _attention_leaks(original: Any) -> Any:
    """Every valid row's attention reaches the residual stream."""

    def broken(self: Any, layer: Any, q: Tensor, route: Route, valid: Tensor, plan: Any) -> Any:
        rows = valid.nonzero().squeeze(1)
        out, ran = original(self, layer, q, route, valid, plan)
        full = out.clone()
        full[rows] = layer.modules.o_proj(layer.attention.attend_rows(layer.number, q, rows))
        return full, ran

    return broken


def _through_bfloat16(original: Any) -> Any:
    """The MLP's output takes a detour through a narrower dtype on the packed path only."""

    def broken(values: Tensor, rows: Tensor, scale: Tensor | None, out: Tensor) -> None:
        original(values.bfloat16().to(values.dtype), rows, scale, out)

    return broken


def _stale_output(original: Any) -> Any:
    """Branch outputs keep what the buffer held in the pass before where a row count repeats."""
    last: dict[tuple[int, ...], Tensor] = {}

    def broken(self: Any, y: Tensor, route: Route, run: Any) -> Tensor:
        out: Tensor = original(self, y, route, run)
        stale = last.get(tuple(out.shape))
        last[tuple(out.shape)] = out.clone()
        untouched = (out == 0).all(-1, keepdim=True)
        return out if stale is None else torch.where(untouched, stale, out)

    return broken


def _sometimes_doubled(original: Any) -> Any:
    """A scatter that adds runs once too often on live data, as an autotuner makes it that restores nothing."""
    calls = itertools.count(1)

    def broken(values: Tensor, rows: Tensor, scale: Tensor | None, out: Tensor) -> None:
        original(values, rows, scale, out)
        if next(calls) % 7 == 0:
            out[rows] += values

    return broken


def _batch_scale(original: Any) -> Any:
    """One quantisation step for the whole cohort, from its largest value."""

    def broken(self: Any, y: Tensor) -> Tensor:
        step = torch.nan_to_num(y).abs().max().clamp(min=1e-6) / 127
        out: Tensor = original(self, (y / step).round() * step)
        return out

    return broken


def _by_row_number(original: Any) -> Any:
    """A branch's output depends a little on where in the pass its row stands."""

    def broken(values: Tensor, rows: Tensor, scale: Tensor | None, out: Tensor) -> None:
        original(values * (1 + rows[:, None] * 2.0**-12), rows, scale, out)

    return broken


def _residual_forgotten(original: Any) -> Any:
    """PROJECT_ONLY rows leave the layer without the stream they came with."""

    def broken(self: Any, hidden: Tensor, residual: Tensor | None, run: Any) -> tuple[Tensor, Tensor]:
        out, h1 = original(self, hidden, residual, run)
        project = run.tape.actions[self.index] == int(Action.PROJECT_ONLY)
        return out, torch.where(project[:, None] & run.valid[:, None], torch.zeros_like(h1), h1)

    return broken


def _projector_halves_exchanged(original: Any) -> Any:
    """The SwiGLU's gated half is taken for the other."""

    def broken(self: Any, layer: int, y: Tensor, state: Any) -> Tensor:
        weights = self.swiglu(layer)
        gate, down = torch.nn.functional.linear(y, weights.w_in).chunk(2, -1)
        return torch.nn.functional.linear(torch.nn.functional.silu(down) * gate, weights.w_out)

    return broken


SCALE = "vskipper.execution.routed_layer:branch_scale"
ROUTE = "vskipper.policies.flexidepth:FlexiDepth.route"
LAYER = "vskipper.execution.routed_layer:RoutedLayer"
FAULTS = (
    executor_fault(
        id="attention-leaks",
        title="attention of rows that skip it reaches the residual stream",
        source="arXiv:2609.37062, 799 of 1,184 cells",
        seam="vskipper.execution.packed:PackedBranches.attend",
        patch=_attention_leaks,
        killer="sem.skipped_attention",
        reason="skipped_attention_leaks",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="scatter-narrow",
        title="branch outputs are scattered through a narrower dtype",
        source="sglang#24590",
        seam="vskipper.execution.packed:scatter",
        patch=_through_bfloat16,
        killer="model.all_run_is_dense",
        reason="all_run_differs",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="branch-output-stale",
        title="rows that no branch wrote keep what an earlier pass left there",
        source="sglang#28371",
        seam=f"{LAYER}._branches",
        patch=_stale_output,
        killer="sem.zero_projector",
        reason="skipped_row_changed",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="scatter-doubled",
        title="a scatter now and then adds its result twice",
        source="triton#6547",
        seam="vskipper.execution.packed:scatter",
        patch=_sometimes_doubled,
        killer="sem.repeatable",
        reason="not_repeatable",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="cohort-wide-scale",
        title="one quantisation step for all rows of a cohort",
        source="flashinfer#2861",
        seam="conformance.runtimes.torch_runtime.modules:TorchLayer.mlp",
        patch=_batch_scale,
        killer="map.batch",
        reason="batch_changes_result",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="result-by-row-number",
        title="a branch's output depends on where in the pass its row stands",
        source="FlashMLA#212",
        seam="vskipper.execution.packed:scatter",
        patch=_by_row_number,
        killer="map.row_order",
        reason="row_order_changes_result",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="residual-forgotten",
        title="PROJECT_ONLY rows lose the stream they came with",
        source="tokenspeed#327",
        seam=f"{LAYER}.__call__",
        patch=_residual_forgotten,
        killer="sem.zero_projector",
        reason="skipped_row_changed",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="projector-halves-exchanged",
        title="the projector's gate_proj and down_proj are exchanged",
        source="FlexiDepth's names of d-to-m and m-to-d",
        seam="vskipper.policies.flexidepth:FlexiDepth.project",
        patch=_projector_halves_exchanged,
        killer="model.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
)
