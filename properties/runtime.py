"""What a property needs of a runtime under test: open a session, step it, and let the suite read the pool's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from reference.config import ModelConfig
from reference.plan import Fill, PoolLayout, StepPlan, TapePlan

Mode = Literal["dense", "routed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model under test: configuration, tensors by Hugging Face name (router and projector tensors included where it
    has them), routed layers, and the folder they come from, where there is one. weighted: its gate mode."""

    name: str
    config: ModelConfig
    tensors: Mapping[str, Tensor]
    routed_layers: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    directory: Path | None = None
    weighted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeCapabilities:
    """What a runtime offers. device: of its tensors, and of the policy that it is given. row_invariant: a row's bits do
    not depend on the other rows, their number or order. same_kernels: mode dense and an all-RUN pass run the same
    kernels, so that SEM-3 holds bit for bit. hidden_states: StepResult.hidden is filled. padding: StepPlan.padding may
    be above 0. fills: what padding rows may hold. kv_scales: the layout's scales may be
    other than 1. kv_bytes: what K, or V, of one layer may take where captured graphs are tried on a large pool,
    0 where they are not."""

    device: str = "cpu"
    row_invariant: bool = False
    same_kernels: bool = True
    hidden_states: bool = True
    padding: bool = True
    fills: tuple[Fill, ...] = ("zero", "nan", "inf", "old")
    kv_scales: bool = True
    kv_bytes: int = 0
    page_sizes: tuple[int, ...] = (1, 16, 64)
    kv_dtypes: tuple[str | None, ...] = (None,)
    actions: frozenset[int] = frozenset({0, 1, 2, 3})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWork:
    """What ran at one routed layer, counted by the code that ran it: rows through each branch, and K/V rows written."""

    attention: int
    mlp: int
    projector: int
    kv_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One pass, valid rows only, in plan order.

    logits: [chunks, vocab], of each chunk's last row. hidden: [layers + 1, rows, hidden], the residual stream entering
    each layer and leaving the last, or None. actions: uint8 [routed layers, rows], what ran. weights: [routed, rows]
    or None in gate mode hard. cohorts: per routed layer the plan's rows int32 [capacity] and offsets int32 [5].
    In mode dense actions, cohorts and work are empty.
    """

    logits: Tensor
    hidden: Tensor | None
    actions: Tensor
    weights: Tensor | None = None
    work: tuple[LayerWork, ...] = ()
    cohorts: tuple[tuple[Tensor, Tensor], ...] = field(default_factory=tuple)


class Session(Protocol):
    """One model in one pool. Steps build on each other through the pool alone."""

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """The pool itself, not a copy: K and V of each layer, [slots, kv heads, head dim]."""

    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        """Run one pass; `tape` forces the routes, None lets the policy decide."""

    def close(self) -> None: ...


class Runtime(Protocol):
    """A system under test."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> RuntimeCapabilities: ...

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        """policy: a vskipper SkipPolicy made for this model; under a forced tape only its projector is used."""
