"""The oracle in place of captured graphs: the control, which every property of level graph must pass."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.reference import ReferenceRuntime, ReferenceSession
from properties.graph.drive import work_of
from properties.graph.engine import Decided, Variant, Way
from properties.row_batch import batch_of
from properties.runtime import Model, StepResult
from reference.plan import Fill, PoolLayout, StepPlan, TapePlan
from vskipper.action import Action
from vskipper.policy import SkipPolicy

SLOTS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceGraphs:
    """Implements GraphEngine: padding rows do not exist, and a replay is the code."""

    sizes: tuple[int, ...] = (1, 2, 4)

    def open(
        self, model: Model, policy: Any, page_size: int, *, forced: bool, slots: int | None = None
    ) -> ReferenceReplays:
        layout = PoolLayout(page_size=page_size, pages=-(-(slots or SLOTS) // page_size))
        return ReferenceReplays(ReferenceRuntime().open(model, policy, layout, "routed"), policy, model)

    def open_stock(self, model: Model, page_size: int) -> ReferenceStock:
        layout = PoolLayout(page_size=page_size, pages=-(-SLOTS // page_size))
        return ReferenceStock(ReferenceRuntime().open(model, None, layout, "dense"))


class ReferenceStock:
    """Implements StockGraphSession."""

    def __init__(self, session: ReferenceSession) -> None:
        self._session = session

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self._session.kv

    def decode(self, plan: StepPlan) -> Tensor:
        return self._session.step(plan, None).logits

    def close(self) -> None:
        self._session.close()


class ReferenceReplays:
    """Implements GraphSession."""

    code_runs = 0

    def __init__(self, session: ReferenceSession, policy: SkipPolicy, model: Model) -> None:
        self._session, self._policy, self._model = session, policy, model

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self._session.kv

    def decode(
        self, plan: StepPlan, tape: TapePlan | None, *, variant: Variant = "routed", way: Way = "replay"
    ) -> StepResult:
        self._session.mode = variant
        return self._session.step(plan, tape)

    def decode_all(self, plans: Sequence[StepPlan], dense: Sequence[frozenset[str]]) -> tuple[Decided, ...]:
        """The policy alone is asked, and of nothing but rows."""
        return tuple(self._decided(plan, apart) for plan, apart in zip(plans, dense, strict=True))

    def _decided(self, plan: StepPlan, dense: frozenset[str]) -> Decided:
        state = self._policy.begin(batch_of(plan))
        x = torch.zeros(plan.rows, self._model.config.hidden_size, dtype=self._model.dtype)
        alone = torch.tensor([chunk.request in dense for chunk in plan.chunks])
        routes = [self._policy.route(layer, x, state).actions for layer in self._model.routed_layers]
        actions = torch.stack(routes).masked_fill(alone, int(Action.RUN))
        return Decided(actions=actions, work=tuple(work_of(line) for line in actions.tolist()))

    def fill_padding(self, fill: Fill) -> None:
        """There is none."""

    def no_waits(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self._session.close()
