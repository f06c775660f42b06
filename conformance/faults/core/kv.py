"""Faults of own-layer KV: clauses KV-1 to KV-4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.edit_kv import Written, changed, edit_kv, others
from conformance.faults.core.make import executor_fault
from conformance.faults.fault import WRITES_AND_MAPS, Fault
from conformance.runtimes.torch_runtime.attention import PagedAttention, load
from vskipper.execution.packed import span_rows

WRITE = "vskipper.execution.routed_layer:RoutedLayer._write_kv"


def _drop_project_rows(written: Written) -> Written:
    keep = others(written.project, written.slots.numel())
    return replace(written, slots=written.slots[keep], k=written.k[keep], v=written.v[keep])


def _drop_last_row(written: Written) -> Written:
    count = int(written.run.valid.sum())
    keep = others(torch.tensor([count - 1]), written.slots.numel()) if count > 1 else torch.arange(count)
    return replace(written, slots=written.slots[keep], k=written.k[keep], v=written.v[keep])


def _one_write_more(written: Written) -> Written:
    attention = written.run.attention
    assert isinstance(attention, PagedAttention)
    beyond = (written.slots[:1] + 1) % attention.pool.layout.slots
    return replace(
        written,
        slots=torch.cat([beyond, written.slots]),
        k=torch.cat([written.k[:1], written.k]),
        v=torch.cat([written.v[:1], written.v]),
    )


def _from_previous_layer(written: Written) -> Written:
    attention = written.run.attention
    assert isinstance(attention, PagedAttention)
    k_pool, v_pool = attention.pool.layers[written.layer.layer - 1]
    layout, slots = attention.pool.layout, written.slots[written.project]
    k = load(k_pool, slots, layout.k_scale, written.k.dtype)
    v = load(v_pool, slots, layout.v_scale, written.v.dtype)
    return replace(written, k=changed(written.k, written.project, k), v=changed(written.v, written.project, v))


def _packed_index_as_position(written: Written) -> Written:
    rows = written.project
    positions = torch.arange(rows.numel())
    _, k, _ = written.layer.modules.qkv(written.x[rows], positions)
    return replace(written, k=changed(written.k, rows, k))


def _neighbours_swapped(written: Written) -> Written:
    count = int(written.run.valid.sum())
    order = torch.arange(written.slots.numel())
    if count > 1:
        order[:2] = torch.tensor([1, 0])
    return replace(written, k=written.k[order], v=written.v[order])


def _scale_dropped(written: Written) -> Written:
    attention = written.run.attention
    assert isinstance(attention, PagedAttention)
    rows, scale = written.project, attention.pool.layout.k_scale
    # the writer divides by the scale, so this row is stored as if it had none
    return replace(written, k=changed(written.k, rows, written.k[rows] * scale))


def _skipped_attention_through_half(written: Written) -> Written:
    """Rows outside the attention cohort, as if their keys were only kept for others to read."""
    rows = others(span_rows(written.run.plans[written.layer.index].attention), written.slots.numel())
    return replace(written, k=changed(written.k, rows, written.k[rows].to(torch.bfloat16).to(written.k.dtype)))


def _project_rows_through_half(written: Written) -> Written:
    rows = written.project
    return replace(
        written,
        k=changed(written.k, rows, written.k[rows].half().to(written.k.dtype)),
        v=changed(written.v, rows, written.v[rows].half().to(written.v.dtype)),
    )


def _without_k_norm(original: Any) -> Any:
    """LayerModules.qkv whose keys skip Qwen3's norm of each head."""

    def broken(self: Any, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weight = self.weights["self_attn.k_norm.weight"]
        self.weights["self_attn.k_norm.weight"] = torch.ones_like(weight)
        q, k, v = original(self, x, positions)
        self.weights["self_attn.k_norm.weight"] = weight
        return q, k, v

    return broken


FAULTS = (
    executor_fault(
        id="kv-project-rows-dropped",
        title="PROJECT_ONLY rows write no K and V",
        source="sglang#39342",
        seam=WRITE,
        patch=edit_kv(_drop_project_rows),
        killer="kv.complete",
        reason="missing_write",
        quiet=("map.partition", "policy.declared"),
    ),
    executor_fault(
        id="kv-last-row-dropped",
        title="a chunk counts as computed before its last row was written",
        source="sglang#24275",
        seam=WRITE,
        patch=edit_kv(_drop_last_row),
        killer="kv.complete",
        reason="missing_write",
        quiet=("map.partition", "policy.declared"),
    ),
    Fault(
        id="kv-written-beyond-own-slot",
        title="one K and V more is written, to the slot behind the first",
        source="sglang#30093",
        seam=WRITE,
        patch=edit_kv(_one_write_more),
        killer="kv.footprint",
        reason="foreign_slot_written",
        quiet=("map.partition", "gate.routes"),
    ),
    Fault(
        id="kv-copied-from-layer-below",
        title="PROJECT_ONLY rows take over the K and V of the layer below",
        source="GateSkip (arXiv 2510.13876), masked path",
        seam=WRITE,
        patch=edit_kv(_from_previous_layer),
        killer="kv.own_layer",
        reason="wrong_layer",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="kv-position-of-packed-row",
        title="keys of PROJECT_ONLY rows are turned by their place in the cohort",
        source="imp#692",
        seam=WRITE,
        patch=edit_kv(_packed_index_as_position),
        killer="kv.own_layer",
        reason="wrong_position",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="kv-rows-exchanged",
        title="the first two rows write each other's K and V",
        source="tt-xla#5778",
        seam=WRITE,
        patch=edit_kv(_neighbours_swapped),
        killer="kv.own_layer",
        reason="wrong_row",
        quiet=WRITES_AND_MAPS,
    ),
    executor_fault(
        id="kv-narrowed-by-cohort",
        title="keys of rows that skip attention are rounded to bfloat16 on their way to the pool",
        source="vllm#55670",
        seam=WRITE,
        patch=edit_kv(_skipped_attention_through_half),
        killer="kv.one_rule",
        reason="rule_depends_on_action",
        quiet=("kv.complete", "kv.footprint", "map.partition"),
    ),
    Fault(
        id="kv-scale-dropped",
        title="keys of PROJECT_ONLY rows are stored without their scale",
        source="sglang#18818",
        seam=WRITE,
        patch=edit_kv(_scale_dropped),
        killer="kv.scales",
        reason="scale_not_applied",
        quiet=("kv.complete", "kv.footprint", "sem.outputs"),
    ),
    executor_fault(
        id="kv-project-rows-narrow",
        title="PROJECT_ONLY rows store K and V through a narrower dtype",
        source="vllm#42580",
        seam=WRITE,
        patch=edit_kv(_project_rows_through_half),
        killer="kv.own_layer",
        reason="wrong_value",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="kv-without-k-norm",
        title="keys miss Qwen3's norm of each head",
        source="policies that were written for Llama and run on Qwen3",
        seam="conformance.runtimes.torch_runtime.modules:TorchLayer.qkv",
        patch=_without_k_norm,
        killer="kv.own_layer",
        reason="wrong_value",
        quiet=WRITES_AND_MAPS,
        model="tiny-qwen3",
    ),
)
