"""What a skip policy is: a Protocol of three hooks and a declaration of what may be expected of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from vskipper.action import Action


class GateMode(StrEnum):
    """weighted: RUN scales its MLP by w, PROJECT_ONLY its projector by 1 - w. hard: neither is scaled."""

    WEIGHTED = "weighted"
    HARD = "hard"


class Phase(IntEnum):
    """Why a row is in the pass; RowBatch.phases holds these codes."""

    PREFILL = 0
    DECODE = 1


class Timing(StrEnum):
    """When a decision is known: the earlier, the more a runtime can prepare."""

    LOAD = "load"
    REQUEST = "request"
    STEP = "step"
    TOKEN = "token"
    LAYER = "layer"
    MID_LAYER = "mid_layer"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCapabilities:
    """What the policy declares. A field of the wrong type is refused when the policy is made.

    actions, gate_modes: all that its routes hold; checked in every result (clause POL-1).
    phases: those it decides in; the rows of others run dense, and are padding to it.
    timing: when a decision is known. Recorded only, but for mid_layer, which goes with route_mlp.
    needs_router, needs_projector: the checkpoint must have router tensors; the hook `project` must be there, and runs.
    deterministic, batch_invariant, chunk_invariant: promises that clause POL-1 tests. Without the first, nothing is
    asked of the others, nor are the routes of the model held against the policy's.
    prefix_determined: routes follow from the row's own prefix of tokens alone, so prefixes may be shared; tested too.
    request_state_bytes: what a request's state takes. Recorded only.
    tolerates_dense_prefix: a request that was prefilled dense may go on routed. Taken at its word.
    """

    actions: frozenset[Action] = frozenset({Action.RUN, Action.PROJECT_ONLY})
    phases: frozenset[Phase] = frozenset({Phase.PREFILL, Phase.DECODE})
    timing: Timing = Timing.LAYER
    needs_router: bool = False
    needs_projector: bool = False
    gate_modes: frozenset[GateMode] = frozenset({GateMode.HARD})
    deterministic: bool = True
    batch_invariant: bool = True
    chunk_invariant: bool = True
    prefix_determined: bool = False
    request_state_bytes: int = 0
    tolerates_dense_prefix: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBatch:
    """The rows of one pass, each tensor [rows] on the device.

    request_keys: int64, the 8-byte BLAKE2b digest of the request id, read little-endian and reinterpreted as signed.
    positions, token_ids: int64. phases: int8 codes of Phase. valid: bool, False for padding rows, which stand at the
    end, or anywhere where they are rows of requests that run dense. To be read and not written, in every hook.
    """

    request_keys: Tensor
    positions: Tensor
    token_ids: Tensor
    phases: Tensor
    valid: Tensor

    @property
    def rows(self) -> int:
        return self.valid.shape[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One routed layer's decision. actions: uint8 [rows], codes of Action.

    weights: w in the dtype of the hidden states, [rows], in gate mode weighted (RUN scales its MLP by w, PROJECT_ONLY
    its projector by 1 - w, the sublayer actions nothing); None in gate mode hard.
    """

    actions: Tensor
    weights: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiGLU:
    """Weights of w_out(silu(w_in[:m] y) * w_in[m:] y), the form of the MLP and of FlexiDepth's projector alike.

    w_in: [2 m, hidden], the gated half first. w_out: [hidden, m]. Both contiguous, dtype of the hidden states.
    """

    w_in: Tensor
    w_out: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContext:
    """What a policy is built with. tensors: the checkpoint's router and projector tensors by full name, or empty.
    vocab_size: token ids lie below it; 0 where it is not known."""

    layers: int
    hidden_size: int
    intermediate_size: int
    rms_norm_eps: float
    routed_layers: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    gate_mode: GateMode = GateMode.WEIGHTED
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    vocab_size: int = 0


@runtime_checkable
class SkipPolicy(Protocol):
    """Three hooks, all on the device: no synchronisation, no Python state that changes from step to step, nothing
    changed that the process shares or that is in the context's tensors.

    A policy is made by `factory(context: PolicyContext, **settings)`; a class with such a constructor is one.
    `project` may be absent where capabilities.needs_projector is False: a PROJECT_ONLY row then adds nothing.
    Optional attributes a runtime looks for:
    `route_mlp(layer, y, state) -> Route` decides the MLP bit after attention (if and only if timing is mid_layer);
    `swiglu(layer) -> SwiGLU` says that project() is this SwiGLU, so that a kernel may run it.
    """

    @property
    def capabilities(self) -> PolicyCapabilities: ...

    def begin(self, batch: RowBatch) -> Any:
        """Once a pass, before the first layer; the result is handed to every other hook."""

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        """Decide for every row from x [rows, hidden], the output of this layer's input norm."""

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        """The projector, row by row, on y [n, hidden], the output of the post-attention norm; unscaled. n is at least
        1 and need not be the number of rows that skip: others, padding among them, may be projected for nothing."""
