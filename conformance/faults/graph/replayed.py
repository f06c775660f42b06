"""Faults of a replay: what it is handed, what it waits for, what it leaves behind, and which rows attend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import graph_fault
from vskipper.execution.routed_pass import Evidence
from vskipper.sglang.masked_attention import every_row

# where signed numbers of 32 bits end
SIGNED = 2**31
BUFFERS = "vskipper.sglang.graphs.buffers:GraphBuffers"


def _evidence_shared(original: Any) -> Any:
    def broken(buffers: Any, rows: int) -> Evidence:
        return Evidence(actions=buffers.actions[:, :rows], counts=buffers.counts)

    return broken


def _waits(original: Any) -> Any:
    def broken(buffers: Any, plan: Any) -> None:
        original(buffers, plan)
        buffers.force_run.any().item()

    return broken


def _handed_over(original: Any) -> Any:
    return lambda values, dtype, device: torch.tensor(values, dtype=dtype, device=device)


def _forced(original: Any) -> Any:
    def broken(buffers: Any, plan: Any) -> None:
        original(buffers, plan)
        buffers.force_run.fill_(True)

    return broken


def _unmasked(original: Any) -> Any:
    def broken(module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, batch: Any) -> Tensor:
        return every_row(module, q, k, v, batch)

    return broken


def _wrapped(original: Any) -> Any:
    def broken(module: Any, batch: Any, k: Tensor, v: Tensor) -> None:
        slots, row = batch.out_cache_loc, k[0].numel() * k.element_size()
        batch.out_cache_loc = (slots.long() * row % SIGNED // row).to(slots.dtype)
        try:
            original(module, batch, k, v)
        finally:
            batch.out_cache_loc = slots

    return broken


FAULTS = (
    graph_fault(
        id="graph-evidence-shared",
        title="a pass is told what the next one did",
        source="outputs overwritten by a second replay",
        seam=f"{BUFFERS}.evidence",
        patch=_evidence_shared,
        killer="graph.alternate",
        reason="evidence_overwritten",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-host-waits",
        title="the host reads a flag from the device before every replay",
        source="a synchronisation a step",
        seam=f"{BUFFERS}.load",
        patch=_waits,
        killer="graph.still",
        reason="host_waits",
        quiet=("graph.replay", "graph.outputs"),
    ),
    graph_fault(
        id="graph-rows-waited-for",
        title="a batch's request keys are copied to the device while the host waits",
        source="a synchronisation a step",
        seam="vskipper.sglang.batches:queued",
        patch=_handed_over,
        killer="graph.still",
        reason="host_waits",
        quiet=("graph.replay", "graph.outputs"),
    ),
    graph_fault(
        id="graph-forced-run-sticks",
        title="rows stay forced to RUN after a batch of dense requests",
        source="a static buffer written once",
        seam=f"{BUFFERS}.load",
        patch=_forced,
        killer="graph.outputs",
        reason="routes_differ",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-attention-unmasked",
        title="rows that skip attention keep what attention gave them",
        source="a mask that a captured graph does not apply",
        seam="vskipper.sglang.attention:attend_masked",
        patch=_unmasked,
        killer="graph.outputs",
        reason="wrong_hidden",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-offsets-32-bit",
        title="K and V are written where a place of 32 bits wraps to",
        source="vllm#47671",
        seam="vskipper.sglang.attention:write_kv",
        patch=_wrapped,
        killer="graph.far",
        reason="far_slots_differ",
        quiet=("graph.still", "graph.padding"),
    ),
)
