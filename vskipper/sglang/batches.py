"""From the requests of the engine's batch to the rows of a pass: whose they are, their phase, and which run dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.policy import RowBatch
from vskipper.sglang.passes import Attempt, PassPlan
from vskipper.sglang.request import RequestState
from vskipper.sglang.stretch import Stretch, row_positions, stretches


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEvidence:
    """What a routed pass did. stretches: of its rows, in the engine's order. actions: uint8 [routed layers, rows].
    counts: int64 [routed layers, branches], rows through each branch. Both on the host, and there once wait() has
    returned. reached: when the device had copied them, None where there was nothing to wait for."""

    stretches: tuple[Stretch, ...]
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
        layers = self.actions.shape[0]
        by_row = iter((self.actions == int(Action.PROJECT_ONLY)).sum(0).tolist())
        for stretch in self.stretches:
            skipped = sum(islice(by_row, stretch.count))
            if not stretch.dense:
                stretch.state.count(stretch.phase, pairs=layers * stretch.count, skipped=skipped)


class BatchPass:
    """Implements PassSource for one batch of the scheduler. states: of the batch's requests, in its order. fail: ends a
    request, by its number in the batch, with an error. uncovered: told of a request of which the decode row at a
    position ran dense though it was to run routed."""

    def __init__(
        self,
        states: Sequence[RequestState],
        fail: Callable[[int, PolicyError], None],
        uncovered: Callable[[int, int], None],
    ) -> None:
        self._states = tuple(states)
        self._fail = fail
        self._uncovered = uncovered
        self._given: tuple[Tensor, Tensor, tuple[Stretch, ...]] | None = None
        self._found: tuple[Stretch, ...] = ()
        self.evidence: list[PassEvidence] = []
        self.was_uncovered = False

    def is_routed(self, forward_batch: Any) -> bool:
        return not all(stretch.dense for stretch in self._stretches(forward_batch))

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan | None:
        found = self._stretches(forward_batch)
        if all(stretch.dense for stretch in found):
            return None
        rows = sum(stretch.count for stretch in found)
        if rows != input_ids.shape[0]:
            raise RuntimeError(f"the batch's requests have {rows} rows, the engine's pass {input_ids.shape[0]}")
        self._given = (input_ids, positions, found)
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
        assert self._given is not None
        self.was_uncovered = True
        numbers = {id(state): number for number, state in enumerate(self._states)}
        for stretch in self._given[2]:
            if not stretch.dense:
                self._uncovered(numbers[id(stretch.state)], stretch.first)

    def count_uncovered(self, routed_layers: int) -> None:
        """Add to its requests' counts the rows that ran dense, in this pass or an earlier one, for want of a graph."""
        for stretch in self._found:
            fell = stretch.dense or self.was_uncovered
            if fell and stretch.state.failure is None and not stretch.planned_dense:
                stretch.state.uncovered += routed_layers * stretch.count

    def _stretches(self, forward_batch: Any) -> tuple[Stretch, ...]:
        self._found = stretches(self._states, row_positions(forward_batch, len(self._states)))
        return self._found

    def _routed(self) -> list[int]:
        """Numbers of the requests of which a row runs routed."""
        assert self._given is not None
        states = {id(stretch.state) for stretch in self._given[2] if not stretch.dense}
        return [number for number, state in enumerate(self._states) if id(state) in states]

    def _plan(self, decided: Sequence[int]) -> PassPlan:
        """The pass in which the policy decides for these requests alone."""
        assert self._given is not None
        input_ids, positions, planned = self._given
        chosen = {id(self._states[number]) for number in decided}
        # only a pass tried again forces rows that their plan does not
        ran = tuple(each if each.dense or id(each.state) in chosen else replace(each, dense=True) for each in planned)
        device = input_ids.device

        def by_row(value: Callable[[Stretch], int], dtype: torch.dtype) -> Tensor:
            return queued([number for each in ran for number in [value(each)] * each.count], dtype, device)

        def keep(actions: Tensor, counts: Tensor) -> None:
            kept = fetched(actions), fetched(counts)
            self.evidence.append(PassEvidence(stretches=ran, actions=kept[0], counts=kept[1], reached=_now(device)))

        return PassPlan(
            rows=RowBatch(
                request_keys=by_row(lambda each: each.state.key, torch.int64),
                positions=positions.to(torch.int64),
                token_ids=input_ids.to(torch.int64),
                phases=by_row(lambda each: int(each.phase), torch.int8),
                valid=torch.ones(input_ids.shape[0], dtype=torch.bool, device=device),
            ),
            force_run=by_row(lambda each: each.dense, torch.bool) if any(each.dense for each in ran) else None,
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
