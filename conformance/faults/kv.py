"""Faults of own-layer KV: clauses KV-1 to KV-4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.edit_kv import Written, changed, edit_kv, others
from conformance.faults.fault import Fault
from conformance.runtimes.torch_runtime.attention import PagedAttention, load
from conformance.runtimes.torch_runtime.modules import rms_norm
from vskipper.policy import Phase

WRITE = "vskipper.execution.routed_layer:RoutedLayer._write_kv"


def _drop_project_rows(written: Written) -> Written:
    keep = others(written.project, written.slots.numel())
    return replace(written, slots=written.slots[keep], k=written.k[keep], v=written.v[keep])


def _drop_last_prefill_row(written: Written) -> Written:
    count = int(written.run.valid.sum())
    keep = others(torch.tensor([count - 1]), written.slots.numel()) if count > 1 else torch.arange(count)
    return replace(written, slots=written.slots[keep], k=written.k[keep], v=written.v[keep])


def _one_write_more(written: Written) -> Written:
    beyond = written.slots[:1] + 1
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
