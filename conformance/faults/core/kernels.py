"""Faults of the bounded path: what the kernels are told of counts, masks, scales and slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.padding import pads_count
from conformance.faults.fault import Fault
from vskipper.action import Action
from vskipper.cohort import Span


def _starts_at_zero(original: Any) -> Any:
    def broken(y: Tensor, weights: Any, span: Span, scale: Tensor | None, out: Tensor, scratch: Any) -> None:
        original(y, weights, replace(span, start=torch.zeros_like(span.start)), scale, out, scratch)

    return broken


def _count_frozen(original: Any) -> Any:
    """The bound of the first launch of a capacity serves all later ones."""
    frozen: dict[int, Tensor] = {}

    def broken(y: Tensor, weights: Any, span: Span, scale: Tensor | None, out: Tensor, scratch: Any) -> None:
        stop = frozen.setdefault(span.rows.numel(), span.stop.clone())
        original(y, weights, replace(span, stop=torch.minimum(stop, span.stop)), scale, out, scratch)

    return broken


def _scale_dropped(original: Any) -> Any:
    def broken(y: Tensor, weights: Any, span: Span, scale: Tensor | None, out: Tensor, scratch: Any) -> None:
        original(y, weights, span, None, out, scratch)

    return broken


def _mask_ignored(original: Any) -> Any:
    def broken(
        q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, actions: Tensor, *rest: Any, **named: Any
    ) -> None:
        original(q, k, v, indptr, indices, torch.full_like(actions, int(Action.RUN)), *rest, **named)

    return broken


def _slots_in_a_byte(original: Any) -> Any:
    def broken(q: Tensor, k: Tensor, v: Tensor, indptr: Tensor, indices: Tensor, *rest: Any, **named: Any) -> None:
        original(q, k, v, indptr, indices % 256, *rest, **named)

    return broken


SWIGLU = "vskipper.execution.bounded:swiglu"
DECODE = "conformance.runtimes.torch_runtime.attention:paged_decode"
FAULTS = (
    Fault(
        id="bounded-start-ignored",
        title="a count-bounded product starts at the first row of the map, not of its span",
        source="sglang#28371",
        seam=SWIGLU,
        patch=_starts_at_zero,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=("map.partition", "work.counts"),
        runtime="triton",
        only_named=True,
    ),
    Fault(
        id="bounded-count-frozen",
        title="the count of the first launch bounds all later ones",
        source="transformers#45323",
        seam=SWIGLU,
        patch=_count_frozen,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=("map.partition", "work.counts"),
        runtime="triton",
        only_named=True,
    ),
    Fault(
        id="bounded-scale-dropped",
        title="the scatter of a product drops the row's scale",
        source="arXiv:2609.37062, void quality gates",
        seam=SWIGLU,
        patch=_scale_dropped,
        killer="gate.mode",
        reason="gate_mode_ignored",
        quiet=("map.partition", "work.counts"),
        runtime="triton",
        only_named=True,
    ),
    Fault(
        id="decode-mask-ignored",
        title="the decode kernel attends for rows that skip attention",
        source="arXiv:2609.37062, 799 of 1,184 cells",
        seam=DECODE,
        patch=_mask_ignored,
        killer="sem.skipped_attention",
        reason="skipped_attention_leaks",
        quiet=("map.partition", "work.counts"),
        runtime="triton",
        only_named=True,
    ),
    Fault(
        id="decode-narrow-slots",
        title="the decode kernel is given slot numbers in too few bits",
        source="aiter#4474",
        seam=DECODE,
        patch=_slots_in_a_byte,
        killer="map.layout",
        reason="layout_changes_result",
        quiet=("map.partition", "work.counts"),
        runtime="triton",
        only_named=True,
    ),
    Fault(
        id="kernel-plans-padding",
        title="the cohort kernel takes padding for rows",
        source="sglang#24743",
        seam="vskipper.execution.bounded:cohort.plan_cohorts",
        patch=pads_count,
        killer="pad.inert",
        reason="pad_in_cohort",
        quiet=("sem.repeatable",),
        runtime="triton",
        only_named=True,
    ),
)
