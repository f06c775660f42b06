"""Faults that small passes cannot show: clauses SEM-1 and KV-3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.make import executor_fault
from conformance.faults.fault import WRITES_AND_MAPS, Fault

# rows of a tile that a kernel has, positions that a short index counts
TILE = 24
REACH = 256


def _last_row_of_a_tile(original: Any) -> Any:
    """With more rows than a tile has, the last one gets what the row before it got."""

    def broken(self: Any, hidden: Tensor, residual: Tensor | None, run: Any) -> tuple[Tensor, Tensor]:
        out: Tensor
        out, stream = original(self, hidden, residual, run)
        if out.shape[0] > TILE:
            out = torch.cat([out[:-1], out[-2:-1]])
        return out, stream

    return broken


def _beyond_reach(original: Any) -> Any:
    """Slots far back in a context are hidden, as if their number had wrapped."""

    def broken(values: Tensor, visible: Tensor) -> Tensor:
        near = torch.arange(visible.shape[1]) >= visible.sum(1, keepdim=True) - REACH
        hidden: Tensor = original(values, visible & near)
        return hidden

    return broken


FAULTS: tuple[Fault, ...] = (
    executor_fault(
        id="wide-tail-copied",
        title="the last row of a pass wider than a tile is a copy of the one before it",
        source="a mask that ends one row before its tile",
        seam="vskipper.execution.routed_layer:RoutedLayer.__call__",
        patch=_last_row_of_a_tile,
        killer="sem.wide",
        reason="wrong_hidden",
        quiet=("sem.outputs", *WRITES_AND_MAPS),
    ),
    Fault(
        id="context-cut-short",
        title="attention sees no more than the last 256 positions",
        source="a sliding window that nobody asked for",
        seam="conformance.runtimes.torch_runtime.attention:hide",
        patch=_beyond_reach,
        killer="sem.wide",
        reason="wrong_hidden",
        quiet=("sem.outputs", *WRITES_AND_MAPS),
    ),
)
