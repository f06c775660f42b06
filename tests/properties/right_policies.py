"""Policies that promise little and keep it; what serving never asks of them, they need not answer with sense."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.policy import Phase, PolicyCapabilities, PolicyContext, Route, RowBatch

NO_ACTION = 7


class HonestlyRandom:
    """Draws anew for every pass, and says so."""

    capabilities = PolicyCapabilities(deterministic=False, batch_invariant=False, chunk_invariant=False)

    def __init__(self, context: PolicyContext) -> None:
        self.context = context

    def begin(self, batch: RowBatch) -> Any:
        return torch.rand(batch.rows, device=batch.valid.device) < 0.5

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=torch.where(state, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8))


class RandomByDefault(HonestlyRandom):
    """Leaves the promises that say nothing of a random policy at their defaults."""

    capabilities = PolicyCapabilities(deterministic=False)


class _OnePhase:
    """Nonsense for rows of the other phase."""

    phase: Phase

    def __init__(self, context: PolicyContext) -> None:
        self.capabilities = PolicyCapabilities(
            phases=frozenset({self.phase}), prefix_determined=True, tolerates_dense_prefix=True
        )
        self.table = torch.arange(context.vocab_size * 1024, device=context.device) % 2 == 0

    def begin(self, batch: RowBatch) -> Any:
        skips = self.table[batch.token_ids].masked_fill(~batch.valid, False)
        codes = torch.where(skips, int(Action.PROJECT_ONLY), int(Action.RUN)).to(torch.uint8)
        return codes.masked_fill(batch.valid & (batch.phases != int(self.phase)), NO_ACTION)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return Route(actions=state)


class DecodeOnly(_OnePhase):
    phase = Phase.DECODE

    def begin(self, batch: RowBatch) -> Any:
        # the token before a row's own has a position
        before = self.table.gather(0, (batch.positions - 1).masked_fill(~batch.valid, 0))
        return super().begin(batch).masked_fill(before & batch.valid, int(Action.PROJECT_ONLY))


class PrefillOnly(_OnePhase):
    phase = Phase.PREFILL
