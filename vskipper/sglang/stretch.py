"""Rows of a pass that belong together: one request's, in one phase and one mode, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from vskipper.policy import Phase
from vskipper.sglang.request import RequestMode, RequestState


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """`count` rows from position `first` on. dense: whether they run as the dense model does."""

    state: RequestState
    first: int
    count: int
    dense: bool

    @property
    def phase(self) -> Phase:
        return self.state.phase(self.first)

    @property
    def planned_dense(self) -> bool:
        """Whether its request's plan has it dense."""
        return self.state.plan.mode(self.phase) == RequestMode.DENSE


def stretches(states: Sequence[RequestState], places: Sequence[tuple[int, int]]) -> tuple[Stretch, ...]:
    """places: first position and number of rows of each request, in the order of the pass."""
    return tuple(
        Stretch(state=state, first=first, count=stop - first, dense=state.mode(first) == RequestMode.DENSE)
        for state, place in zip(states, places, strict=True)
        for first, stop in pairwise(state.edges(place[0], sum(place)))
    )


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
