"""Faults of what a routed layer computes: clauses SEM-1 to SEM-4 and MAP-3."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.fault import Fault
from vskipper.action import Action
from vskipper.policy import Route


def _attention_leaks(original: Any) -> Any:
    """Every valid row's attention reaches the residual stream."""

    def broken(self: Any, layer: Any, q: Tensor, route: Route, valid: Tensor, plan: Any) -> Any:
        rows = valid.nonzero().squeeze(1)
        out, ran = original(self, layer, q, route, valid, plan)
        full = out.clone()
        full[rows] = layer.modules.o_proj(layer.attention.attend_rows(layer.number, q[rows], rows))
        return full, ran

    return broken


def _project_scaled_by_w(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        return None if route.weights is None else torch.where(_sublayer(route), 1.0, route.weights)

    return broken


def _never_scaled(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        return None

    return broken


def _sublayers_scaled(original: Any) -> Any:
    def broken(route: Route) -> Tensor | None:
        scale = original(route)
        return scale if scale is None else torch.where(_sublayer(route), 0.5 * scale, scale)

    return broken


def _sublayer(route: Route) -> Tensor:
    return (route.actions == int(Action.SKIP_ATTN)) | (route.actions == int(Action.SKIP_MLP))


def _through_bfloat16(original: Any) -> Any:
    """The MLP's output takes a detour through a narrower dtype on the packed path only."""

    def broken(values: Tensor, rows: Tensor, scale: Tensor | None, out: Tensor) -> None:
        original(values.bfloat16().to(values.dtype), rows, scale, out)

    return broken


class _StaleOutput:
    """Branch outputs keep what the buffer held in the pass before where a row count repeats."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._last: dict[tuple[int, ...], Tensor] = {}

    def bind(self) -> Any:
        def broken(layer: Any, y: Tensor, route: Route, run: Any) -> Tensor:
            out: Tensor = self._original(layer, y, route, run)
            stale = self._last.get(tuple(out.shape))
            self._last[tuple(out.shape)] = out.clone()
            untouched = (out == 0).all(-1, keepdim=True)
            return out if stale is None else torch.where(untouched, stale, out)

        return broken


def _stale_output(original: Any) -> Any:
    return _StaleOutput(original).bind()


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


def _weight_below_one(original: Any) -> Any:
    """w = 1 is taken for w just below it."""

    def broken(route: Route) -> Tensor | None:
        scale = original(route)
        return scale if scale is None else torch.where(scale == 1.0, scale - 2**-20, scale)

    return broken


def _threshold_not_strict(original: Any) -> Any:
    """RUN iff w >= 0.5."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        w = self._routers[layer].weight(x)
        actions = torch.where(w >= 0.5, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8)
        return replace(route, actions=actions)

    return broken


def _norm_before_router(original: Any) -> Any:
    """One norm too many stands before the router."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        centred = x - x.mean(-1, keepdim=True)
        route: Route = original(self, layer, centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True)), state)
        return route

    return broken


def _inverted_route(original: Any) -> Any:
    """The branch of RUN is taken for PROJECT_ONLY's: which class is which was misread."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        flipped = int(Action.RUN) - route.actions
        return replace(route, actions=flipped.to(torch.uint8))

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
KV_QUIET = ("kv.complete", "kv.footprint", "map.partition")
FAULTS = (
    Fault(
        id="attention-leaks",
        title="attention of rows that skip it reaches the residual stream",
        source="the authors' 799 of 1,184 cells",
        seam="vskipper.execution.packed:PackedBranches.attend",
        patch=_attention_leaks,
        killer="sem.skipped_attention",
        reason="skipped_attention_leaks",
        quiet=KV_QUIET,
    ),
    Fault(
        id="project-scaled-by-w",
        title="the projector is scaled by w in place of 1 - w",
        source="FlexiDepth's equations misread",
        seam=SCALE,
        patch=_project_scaled_by_w,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=KV_QUIET,
    ),
    Fault(
        id="gate-mode-ignored",
        title="a weighted gate runs as a hard one",
        source="the authors' void quality gates",
        seam=SCALE,
        patch=_never_scaled,
        killer="gate.mode",
        reason="gate_mode_ignored",
        quiet=KV_QUIET,
    ),
    Fault(
        id="sublayers-scaled",
        title="SKIP_ATTN and SKIP_MLP are scaled",
        source="FlexiDepth's scaling carried over to sublayer policies",
        seam=SCALE,
        patch=_sublayers_scaled,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=KV_QUIET,
    ),
    Fault(
        id="run-weight-below-one",
        title="w = 1 is a little less than 1",
        source="vllm#55238",
        seam=SCALE,
        patch=_weight_below_one,
        killer="sem.all_run_is_dense",
        reason="all_run_differs",
        quiet=KV_QUIET,
    ),
    Fault(
        id="scatter-narrow",
        title="branch outputs are scattered through a narrower dtype",
        source="sglang#24590",
        seam="vskipper.execution.packed:scatter",
        patch=_through_bfloat16,
        killer="model.all_run_is_dense",
        reason="all_run_differs",
        quiet=KV_QUIET,
    ),
    Fault(
        id="branch-output-stale",
        title="rows that no branch wrote keep what an earlier pass left there",
        source="sglang#28371",
        seam=f"{LAYER}._branches",
        patch=_stale_output,
        killer="sem.zero_projector",
        reason="skipped_row_changed",
        quiet=KV_QUIET,
    ),
    Fault(
        id="scatter-doubled",
        title="a scatter now and then adds its result twice",
        source="triton#6547",
        seam="vskipper.execution.packed:scatter",
        patch=_sometimes_doubled,
        killer="sem.repeatable",
        reason="not_repeatable",
        quiet=KV_QUIET,
    ),
    Fault(
        id="cohort-wide-scale",
        title="one quantisation step for all rows of a cohort",
        source="flashinfer#2861",
        seam="conformance.runtimes.torch_runtime.modules:TorchLayer.mlp",
        patch=_batch_scale,
        killer="map.batch",
        reason="batch_changes_result",
        quiet=KV_QUIET,
    ),
    Fault(
        id="result-by-row-number",
        title="a branch's output depends on where in the pass its row stands",
        source="FlashMLA#212",
        seam="vskipper.execution.packed:scatter",
        patch=_by_row_number,
        killer="map.row_order",
        reason="row_order_changes_result",
        quiet=KV_QUIET,
    ),
    Fault(
        id="residual-forgotten",
        title="PROJECT_ONLY rows lose the stream they came with",
        source="tokenspeed#327",
        seam=f"{LAYER}.__call__",
        patch=_residual_forgotten,
        killer="sem.zero_projector",
        reason="skipped_row_changed",
        quiet=KV_QUIET,
    ),
    Fault(
        id="threshold-not-strict",
        title="RUN where w is 0.5 exactly",
        source="FlexiDepth's strict threshold",
        seam=ROUTE,
        patch=_threshold_not_strict,
        killer="gate.threshold",
        reason="threshold_not_strict",
        quiet=(*KV_QUIET, "gate.routes"),
    ),
    Fault(
        id="norm-before-router",
        title="the router sees its input normalised once more",
        source="FlexiDepth's router reads the layer's own input norm",
        seam=ROUTE,
        patch=_norm_before_router,
        killer="gate.routes",
        reason="wrong_weight",
        quiet=KV_QUIET,
    ),
    Fault(
        id="routes-inverted",
        title="the two sides of the gate are exchanged",
        source="SkipGPT, where class 1 means skip",
        seam=ROUTE,
        patch=_inverted_route,
        killer="model.routes",
        reason="route_differs",
        quiet=KV_QUIET,
    ),
    Fault(
        id="projector-halves-exchanged",
        title="the projector's gate_proj and down_proj are exchanged",
        source="FlexiDepth's names of d-to-m and m-to-d",
        seam="vskipper.policies.flexidepth:FlexiDepth.project",
        patch=_projector_halves_exchanged,
        killer="model.outputs",
        reason="wrong_hidden",
        quiet=KV_QUIET,
    ),
)
