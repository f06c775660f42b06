"""Evidence of what ran: rows through each branch, counted on the device by the code that runs the branch (WORK-1)."""

from __future__ import annotations

import torch
from torch import Tensor

BRANCHES = ("attention", "mlp", "projector", "kv_rows")


class WorkCounters:
    """counts: int64 [routed layers, 4] on the device, columns as in BRANCHES; all 0 at first, also those given."""

    def __init__(self, layers: int, device: torch.device | str, *, counts: Tensor | None = None) -> None:
        shape = (layers, len(BRANCHES))
        self.counts = torch.empty(shape, dtype=torch.int64, device=device) if counts is None else counts
        self.counts.zero_()

    def add(self, index: int, branch: str, rows: Tensor | int) -> None:
        """Count `rows` more through `branch` at the index-th routed layer."""
        self.counts[index, BRANCHES.index(branch)] += rows
