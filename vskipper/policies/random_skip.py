"""RandomSkip: whether a row skips follows from request (or token), position and seed; in which layers, from d."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import InputError
from vskipper.policies.hashing import keyed, mix, shift_right, token_keys
from vskipper.policies.projector import CheckpointProjector, actions_taken, open_projector
from vskipper.policies.settings import choice, fraction
from vskipper.policies.settings import seed as checked_seed
from vskipper.policy import PolicyCapabilities, PolicyContext, Route, RowBatch, Timing

NAME = "random-skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Actions:
    """One pass: uint8 [rows] above the projecting layers and in them."""

    upper: Tensor
    projecting: Tensor


class RandomSkip:
    """A row is selected with probability r; a selected row is PROJECT_ONLY in the last ceil(d * routed layers).

    key request: by request id, so that prefixes may not be shared; key token: by the row's token id, so that they may.
    Its skipped share is r * d, and depends on nothing in the batch.
    """

    def __init__(
        self,
        context: PolicyContext,
        *,
        r: float = 0.5,
        d: float = 0.5,
        seed: int = 0,
        key: Literal["request", "token"] = "request",
        projector: Literal["zero", "checkpoint"] = "zero",
    ) -> None:
        self._threshold = math.floor(fraction(NAME, "r", r) * 2**32)
        depth = math.ceil(fraction(NAME, "d", d) * len(context.routed_layers))
        self._projecting = frozenset(context.routed_layers[len(context.routed_layers) - depth :])
        self._seed = checked_seed(NAME, seed)
        self._by_token = choice(NAME, "key", key, ("request", "token")) == "token"
        self._token_keys = _token_table(context) if self._by_token else None
        self._projector = open_projector(context, NAME, projector)
        if isinstance(self._projector, CheckpointProjector):
            self.swiglu = self._projector.swiglu
        self.capabilities = PolicyCapabilities(
            actions=actions_taken(self._threshold > 0 and bool(self._projecting)),
            timing=Timing.TOKEN,
            needs_projector=isinstance(self._projector, CheckpointProjector),
            prefix_determined=self._by_token,
            tolerates_dense_prefix=True,
        )

    def begin(self, batch: RowBatch) -> _Actions:
        keys = batch.request_keys
        if self._token_keys is not None:
            # a padding row's token may be anything; it must not reach outside the table
            keys = self._token_keys[batch.token_ids.clamp(0, self._token_keys.numel() - 1)]
        selected = shift_right(mix(keyed(keys, batch.positions, self._seed)), 32) < self._threshold
        upper = torch.full_like(selected, int(Action.RUN), dtype=torch.uint8)
        return _Actions(upper=upper, projecting=upper.masked_fill(selected, int(Action.PROJECT_ONLY)))

    def route(self, layer: int, x: Tensor, state: _Actions) -> Route:
        return Route(actions=state.projecting if layer in self._projecting else state.upper)

    def project(self, layer: int, y: Tensor, state: _Actions) -> Tensor:
        return self._projector.project(layer, y, state)


def _token_table(context: PolicyContext) -> Tensor:
    if context.vocab_size <= 0:
        where = f"policy {NAME}, setting key"
        raise InputError(
            "key token needs the vocabulary", where=where, got=context.vocab_size, expected="vocab_size > 0"
        )
    return token_keys(context.vocab_size).to(context.device)
