"""What a routed decode graph reads of the requests and leaves of its routes: static tensors, one set for all sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vskipper.errors import PolicyError
from vskipper.execution.routed_pass import Evidence, RoutedPass
from vskipper.execution.work import BRANCHES
from vskipper.policy import Phase, RowBatch
from vskipper.sglang.passes import Attempt, PassPlan

# the engine writes padding rows there, in every version, and no request owns it
DUMMY_SLOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBuffers:
    """request_keys: int64 [rows]; force_run: bool [rows], written before a replay. actions: uint8
    [routed layers, rows]; counts: int64 [routed layers, branches], written by it."""

    request_keys: Tensor
    force_run: Tensor
    phases: Tensor
    actions: Tensor
    counts: Tensor

    @classmethod
    def allocate(cls, rows: int, routed_layers: int, device: torch.device | str) -> GraphBuffers:
        """For decode batches of up to `rows` rows."""
        return cls(
            request_keys=torch.zeros(rows, dtype=torch.int64, device=device),
            force_run=torch.zeros(rows, dtype=torch.bool, device=device),
            phases=torch.full((rows,), int(Phase.DECODE), dtype=torch.int8, device=device),
            actions=torch.zeros(routed_layers, rows, dtype=torch.uint8, device=device),
            counts=torch.zeros(routed_layers, len(BRANCHES), dtype=torch.int64, device=device),
        )

    def load(self, plan: PassPlan) -> None:
        """Hand the requests of a batch to the graph that is replayed next; queued, nothing waits."""
        rows = plan.rows.rows
        self.request_keys[:rows].copy_(plan.rows.request_keys)
        if plan.force_run is None:
            self.force_run[:rows].fill_(False)
        else:
            self.force_run[:rows].copy_(plan.force_run)

    def evidence(self, rows: int) -> Evidence:
        """What the last replay did with its first `rows` rows, until the next one."""
        return Evidence(actions=self.actions[:, :rows], counts=self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedPass:
    """Implements PassSource while a graph is recorded: rows are whatever the buffers will hold in a replay."""

    buffers: GraphBuffers

    def is_routed(self, forward_batch: Any) -> bool:
        """What is recorded is."""
        return True

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan:
        rows = input_ids.shape[0]
        buffers = self.buffers
        return PassPlan(
            rows=RowBatch(
                request_keys=buffers.request_keys[:rows],
                positions=positions.to(torch.int64),
                token_ids=input_ids.to(torch.int64),
                phases=buffers.phases[:rows],
                valid=forward_batch.out_cache_loc != DUMMY_SLOT,
            ),
            force_run=buffers.force_run[:rows],
            done=_forget,
            captured=Evidence(actions=buffers.actions[:, :rows], counts=buffers.counts),
        )

    def recover(self, attempt: Attempt, error: PolicyError) -> Tensor | None:
        """A policy that cannot be captured cannot be served from graphs."""
        raise error

    def uncovered(self) -> None:
        """Capturing is what covers it."""


def _forget(run: RoutedPass) -> None:
    """What is recorded runs later; its evidence lies in the buffers then."""
