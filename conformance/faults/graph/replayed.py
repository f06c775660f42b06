"""Faults of a replay: what it waits for, what is captured once more, and what is left behind for the next one."""

from __future__ import annotations

from typing import Any

import torch

from conformance.faults.graph.make import BUFFERS, graph_fault
from conformance.runtimes.sglang.process import capture_anew

FETCHED = "vskipper.sglang.batches:fetched"


def _shared(original: Any) -> Any:
    return lambda values: values


def _counts_shared(original: Any) -> Any:
    return lambda values: values if values.dtype == torch.int64 else original(values)


def _waited_for(original: Any) -> Any:
    return lambda values: values.cpu()


def _never_waits(original: Any) -> Any:
    return lambda evidence: None


def _waits(original: Any) -> Any:
    def broken(buffers: Any, plan: Any) -> None:
        original(buffers, plan)
        buffers.force_run.any().item()

    return broken


def _captured_anew(original: Any) -> Any:
    def broken(runner: Any, batch: Any, *arguments: Any, **keywords: Any) -> Any:
        decoder = getattr(runner.model, "vskipper", None)
        if decoder is not None and decoder.graphs.captured and batch.forward_mode.is_decode():
            capture_anew(runner)
        return original(runner, batch, *arguments, **keywords)

    return broken


FAULTS = (
    graph_fault(
        id="graph-evidence-shared",
        title="a pass is told what the next one did",
        source="outputs overwritten by a second replay",
        seam=FETCHED,
        patch=_shared,
        killer="graph.alternate",
        reason="evidence_overwritten",
        quiet=("graph.replay", "graph.still"),
    ),
    graph_fault(
        id="graph-counts-shared",
        title="what a pass counted is overwritten by the next one",
        source="outputs overwritten by a second replay",
        seam=FETCHED,
        patch=_counts_shared,
        killer="graph.rows",
        reason="work_differs",
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
        id="graph-evidence-waited-for",
        title="what a pass did is fetched while the host waits",
        source="a synchronisation a step",
        seam=FETCHED,
        patch=_waited_for,
        killer="graph.still",
        reason="host_waits",
        quiet=("graph.replay", "graph.outputs"),
    ),
    graph_fault(
        id="graph-evidence-read-early",
        title="what a pass did is read before the device has come to it",
        source="a copy that nobody waits for",
        seam="vskipper.sglang.batches:PassEvidence.wait",
        patch=_never_waits,
        killer="graph.rows",
        reason="rows_differ",
    ),
    graph_fault(
        id="graph-captured-anew",
        title="graphs are captured again before every replay",
        source="a recapture where routes change",
        seam="sglang.srt.model_executor.model_runner:ModelRunner.forward",
        patch=_captured_anew,
        killer="graph.still",
        reason="captured_anew",
        quiet=("graph.outputs",),
    ),
)
