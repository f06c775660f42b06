"""Faults of what a replay is handed: requests of another pass, or none, or handed over while the host waits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import BUFFERS, MOST_ROWS, graph_fault

QUEUED = "vskipper.sglang.batches:queued"
QUIET = ("graph.replay", "graph.still")


def _not_loaded(name: str) -> Any:
    def patch(original: Any) -> Any:
        def broken(buffers: Any, plan: Any) -> None:
            kept = getattr(buffers, name).clone()
            original(buffers, plan)
            getattr(buffers, name).copy_(kept)

        return broken

    return patch


def _forced(original: Any) -> Any:
    def broken(buffers: Any, plan: Any) -> None:
        original(buffers, plan)
        buffers.force_run.fill_(True)

    return broken


def _one_staging(original: Any) -> Any:
    kept: dict[torch.dtype, Tensor] = {}

    def broken(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
        if dtype not in kept:
            kept[dtype] = torch.zeros(MOST_ROWS, dtype=dtype, pin_memory=True)
        staging = kept[dtype][: len(values)]
        staging.copy_(torch.tensor(values, dtype=dtype))
        return staging.to(device, non_blocking=True)

    return broken


def _handed_over(original: Any) -> Any:
    return lambda values, dtype, device: torch.tensor(values, dtype=dtype, device=device)


FAULTS = (
    graph_fault(
        id="graph-keys-not-loaded",
        title="a replay is shown the request keys that the graph was captured with",
        source="a static buffer written once",
        seam=f"{BUFFERS}.load",
        patch=_not_loaded("request_keys"),
        killer="graph.rows",
        reason="rows_differ",
        quiet=QUIET,
    ),
    graph_fault(
        id="graph-force-run-not-loaded",
        title="dense requests in a routed batch are routed",
        source="a static buffer written once",
        seam=f"{BUFFERS}.load",
        patch=_not_loaded("force_run"),
        killer="graph.rows",
        reason="rows_differ",
        quiet=QUIET,
    ),
    graph_fault(
        id="graph-forced-run-sticks",
        title="rows stay forced to RUN after a batch of dense requests",
        source="a static buffer written once",
        seam=f"{BUFFERS}.load",
        patch=_forced,
        killer="graph.outputs",
        reason="routes_differ",
        quiet=QUIET,
    ),
    graph_fault(
        id="graph-one-staging",
        title="one staging buffer on the host serves a pass and the one after it",
        source="sglang#1712",
        seam=QUEUED,
        patch=_one_staging,
        killer="graph.rows",
        reason="rows_differ",
        quiet=QUIET,
    ),
    graph_fault(
        id="graph-rows-waited-for",
        title="a batch's request keys are copied to the device while the host waits",
        source="a synchronisation a step",
        seam=QUEUED,
        patch=_handed_over,
        killer="graph.still",
        reason="host_waits",
        quiet=("graph.replay", "graph.outputs"),
    ),
)
