"""The plan of the forward pass that is running: published around the engine's forward, read by the model.

The engine rebuilds its batch object on the way to the model, so that nothing attached to it arrives there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from vskipper.errors import PolicyError
from vskipper.execution.routed_pass import Evidence, RoutedPass
from vskipper.policy import RowBatch

# runs a plan through the model: the final norm's output [rows, hidden]; raises PolicyError
Attempt = Callable[["PassPlan"], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """A routed pass. rows: what the policy sees. force_run: bool [rows], rows that run as the dense model does, or
    None. done: called with the evidence once the last layer has run. keep_weights: whether the tape keeps w.
    captured: where a pass that is recorded into a graph leaves its evidence, in every replay; None for an eager one.
    replayed: called in place of done with that evidence, for the rows of this pass; the next replay overwrites it."""

    rows: RowBatch
    force_run: Tensor | None
    done: Callable[[RoutedPass], None]
    keep_weights: bool = False
    captured: Evidence | None = None
    replayed: Callable[[Evidence], None] | None = None

    def is_routed(self, forward_batch: Any) -> bool:
        """It is the plan of a routed pass."""
        return True

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan:
        """Itself: it was planned before the engine built its batch."""
        return self

    def recover(self, attempt: Attempt, error: PolicyError) -> Tensor | None:
        """Nobody but the caller is served by this pass."""
        raise error

    def uncovered(self) -> None:
        """Nothing is kept of it."""


class PassSource(Protocol):
    """Who says how the pass that runs now is routed, and hears what became of it."""

    def is_routed(self, forward_batch: Any) -> bool:
        """Whether the pass has routed rows; asked before it is planned, and queues nothing."""

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan | None:
        """Called by the model with what the engine gives it, int64 [rows] each; None: the pass runs dense."""

    def recover(self, attempt: Attempt, error: PolicyError) -> Tensor | None:
        """The policy broke down in this pass. What an attempt with another plan gave, or None: the pass runs dense.
        Either way every row is computed again, from the start. May raise to stop it."""

    def uncovered(self) -> None:
        """The pass was to be routed and runs dense, since no captured graph covers it."""


_current: ContextVar[PassSource | None] = ContextVar("vskipper_pass", default=None)


def current_pass() -> PassSource | None:
    """The source of the pass that runs now, or None: it runs dense."""
    return _current.get()


@contextmanager
def published(source: PassSource | None) -> Iterator[None]:
    """Make `source` the current one."""
    token = _current.set(source)
    try:
        yield
    finally:
        _current.reset(token)
