"""From the requests of the engine's batch to the rows of a pass: whose they are, their phase, and which run dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.policy import Phase, RowBatch
from vskipper.sglang.passes import Attempt, PassPlan
from vskipper.sglang.request import RequestMode, RequestState


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRow:
    """A row of the batch: its request, its position, and whether it runs as the dense model does."""

    state: RequestState
    position: int
    dense: bool

    @property
    def phase(self) -> Phase:
        return self.state.phase(self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEvidence:
    """What a routed pass did. rows: in the engine's order. actions: uint8 [routed layers, rows]. counts: int64 [routed
    layers, branches], rows through each branch. Both on the host, and there once wait() has returned. reached: when
    the device had copied them, None where there was nothing to wait for."""

    rows: tuple[PassRow, ...]
    actions: Tensor
    counts: Tensor
    reached: torch.cuda.Event | None = None

    def wait(self) -> None:
        """For this pass alone, whatever was queued after it."""
        if self.reached is not None:
            self.reached.synchronize()

    def count(self) -> None:
        """Add the pass to its requests' counts; waits for it."""
        self.wait()
        skipped = (self.actions == int(Action.PROJECT_ONLY)).sum(0).tolist()
        for row, projected in zip(self.rows, skipped, strict=True):
            if not row.dense:
                row.state.count(row.phase, pairs=self.actions.shape[0], skipped=projected)


class BatchPass:
    """Implements PassSource for one batch of the scheduler. states: of the batch's requests, in its order. fail: ends a
    request, by its number in the batch, with an error. uncovered: told of a request whose rows ran dense though its
    plan says routed."""

    def __init__(
        self,
        states: Sequence[RequestState],
        fail: Callable[[int, PolicyError], None],
        uncovered: Callable[[int], None],
    ) -> None:
        self._states = tuple(states)
        self._fail = fail
        self._uncovered = uncovered
        self._given: tuple[Tensor, Tensor, tuple[PassRow, ...]] | None = None
        self.evidence: list[PassEvidence] = []

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan | None:
        rows = _rows(self._states, row_positions(forward_batch, len(self._states)))
        if all(row.dense for row in rows):
            return None
        if len(rows) != input_ids.shape[0]:
            raise RuntimeError(f"the batch's requests have {len(rows)} rows, the engine's pass {input_ids.shape[0]}")
        self._given = (input_ids, positions, rows)
        return self._plan(self._routed())

    def recover(self, attempt: Attempt, error: PolicyError) -> Tensor | None:
        """Try each routed request with all others run dense, end those that fail, and run the rest together."""
        healthy = []
        for number in self._routed():
            try:
                attempt(self._plan([number]))
                healthy.append(number)
            except PolicyError as own:
                self._fail(number, own)
        self.evidence.clear()
        if 0 < len(healthy) < len(self._routed()):
            try:
                return attempt(self._plan(healthy))
            except PolicyError as common:
                error = common
        # no request alone is at fault: all of them end
        for number in healthy:
            self._fail(number, error)
        return None

    def uncovered(self) -> None:
        for number in self._routed():
            self._uncovered(number)

    def _routed(self) -> list[int]:
        """Numbers of the requests of which a row runs routed."""
        assert self._given is not None
        states = {id(row.state) for row in self._given[2] if not row.dense}
        return [number for number, state in enumerate(self._states) if id(state) in states]

    def _plan(self, decided: Sequence[int]) -> PassPlan:
        """The pass in which the policy decides for these requests alone."""
        assert self._given is not None
        input_ids, positions, rows = self._given
        chosen = {id(self._states[number]) for number in decided}
        forced = [row.dense or id(row.state) not in chosen for row in rows]
        device = input_ids.device

        def keep(actions: Tensor, counts: Tensor) -> None:
            # only a pass tried again forces a row that its plan does not
            pairs = zip(rows, forced, strict=True)
            ran = tuple(row if row.dense == dense else replace(row, dense=dense) for row, dense in pairs)
            kept = fetched(actions), fetched(counts)
            self.evidence.append(PassEvidence(rows=ran, actions=kept[0], counts=kept[1], reached=_now(device)))

        return PassPlan(
            rows=RowBatch(
                request_keys=queued([row.state.key for row in rows], torch.int64, device),
                positions=positions.to(torch.int64),
                token_ids=input_ids.to(torch.int64),
                phases=queued([int(row.phase) for row in rows], torch.int8, device),
                valid=torch.ones(len(rows), dtype=torch.bool, device=device),
            ),
            force_run=queued(forced, torch.bool, device) if any(forced) else None,
            done=lambda run: keep(run.tape.actions, run.work.counts),
            replayed=lambda evidence: keep(evidence.actions, evidence.counts),
        )


def queued(values: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """[values] on the device. The copy is queued; the host does not wait for what was queued before it."""
    host = torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda")
    return host.to(device, non_blocking=True)


def fetched(values: Tensor) -> Tensor:
    """A copy on the host, queued: it is there when the device has come to it."""
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=values.is_cuda)
    return host.copy_(values, non_blocking=True)


def _now(device: torch.device) -> torch.cuda.Event | None:
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def row_positions(forward_batch: Any, requests: int) -> list[tuple[int, int]]:
    """First position and number of rows of each request in the engine's pass; waits for the device only
    where the engine keeps no lengths on the host."""
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


def _rows(states: Sequence[RequestState], places: Sequence[tuple[int, int]]) -> tuple[PassRow, ...]:
    return tuple(
        PassRow(state=state, position=position, dense=state.mode(position) == RequestMode.DENSE)
        for state, (first, count) in zip(states, places, strict=True)
        for position in range(first, first + count)
    )
