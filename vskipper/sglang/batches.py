"""From the requests of the engine's batch to the rows of a pass: whose they are, their phase, and which run dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.execution.routed_pass import RoutedPass
from vskipper.policy import Phase, RowBatch
from vskipper.sglang.passes import PassPlan
from vskipper.sglang.request import RequestMode, RequestState


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEvidence:
    """What a routed pass did. owners: for each row its request and phase, None where its phase is dense. actions: uint8
    [routed layers, rows] on the device. counts: int64 [routed layers, branches], rows through each branch."""

    owners: tuple[tuple[RequestState, Phase] | None, ...]
    actions: Tensor
    counts: Tensor

    def count(self) -> None:
        """Add the pass to its requests' counts; waits for the device."""
        skipped = (self.actions == int(Action.PROJECT_ONLY)).sum(0).tolist()
        for owner, rows_skipped in zip(self.owners, skipped, strict=True):
            if owner is not None:
                state, phase = owner
                state.pairs[phase] += self.actions.shape[0]
                state.skipped[phase] += rows_skipped


class BatchPass:
    """Implements PassSource for one batch of the scheduler. states: of the batch's requests, in its order."""

    def __init__(self, states: Sequence[RequestState], on_failure: Callable[[PolicyError], None]) -> None:
        self._states = tuple(states)
        self._on_failure = on_failure
        self.evidence: list[PassEvidence] = []

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan | None:
        places = row_positions(forward_batch, len(self._states))
        if not any(_routed(state, first, rows) for state, (first, rows) in zip(self._states, places, strict=True)):
            return None
        owners = [
            (state, state.phase(first + row))
            for state, (first, rows) in zip(self._states, places, strict=True)
            for row in range(rows)
        ]
        if len(owners) != input_ids.shape[0]:
            raise RuntimeError(f"the batch's requests have {len(owners)} rows, the engine's pass {input_ids.shape[0]}")
        dense = [state.plan.mode(phase) == RequestMode.DENSE for state, phase in owners]
        device = input_ids.device

        def done(run: RoutedPass) -> None:
            kept = tuple(None if d else owner for owner, d in zip(owners, dense, strict=True))
            self.evidence.append(PassEvidence(owners=kept, actions=run.tape.actions, counts=run.work.counts))

        return PassPlan(
            rows=RowBatch(
                request_keys=torch.tensor([state.key for state, _ in owners], device=device),
                positions=positions.to(torch.int64),
                token_ids=input_ids.to(torch.int64),
                phases=torch.tensor([int(phase) for _, phase in owners], dtype=torch.int8, device=device),
                valid=torch.ones(len(owners), dtype=torch.bool, device=device),
            ),
            force_run=torch.tensor(dense, device=device) if any(dense) else None,
            done=done,
        )

    def failed(self, error: PolicyError) -> None:
        self._on_failure(error)


def row_positions(forward_batch: Any, requests: int) -> list[tuple[int, int]]:
    """First position and number of rows of each request in the engine's pass, without waiting for the device."""
    if forward_batch.forward_mode.is_decode():
        return [(length - 1, 1) for length in _lengths(forward_batch)]
    prefixes, rows = forward_batch.extend_prefix_lens_cpu, forward_batch.extend_seq_lens_cpu
    if len(prefixes) != requests or len(rows) != requests:
        raise RuntimeError(f"the batch has {requests} requests, the engine's pass {len(prefixes)} and {len(rows)}")
    return [(int(prefix), int(count)) for prefix, count in zip(prefixes, rows, strict=True)]


def _lengths(forward_batch: Any) -> list[int]:
    known = forward_batch.seq_lens_cpu
    lengths: list[int] = (forward_batch.seq_lens if known is None else known).tolist()
    return lengths


def _routed(state: RequestState, first: int, rows: int) -> bool:
    """Whether any of `rows` rows from position `first` on runs routed."""
    phases = {state.phase(first), state.phase(first + rows - 1)} if rows else set()
    return any(state.plan.mode(phase) == RequestMode.ROUTED for phase in phases)
