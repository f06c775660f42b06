"""Runtimes that are wrong in one way each: the reference runtime with one step spoilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from conformance.runtimes.reference import ReferenceRuntime, ReferenceSession
from properties.runtime import Mode, Model, RuntimeCapabilities, StepResult
from reference.plan import PoolLayout, StepPlan, TapePlan
from reference.rows import Row, rows_of


@dataclass(slots=True, kw_only=True)
class Step:
    """One pass of a session. number: how many came before it in this session."""

    session: ReferenceSession
    model: Model
    layout: PoolLayout
    mode: Mode
    plan: StepPlan
    tape: TapePlan | None
    number: int

    def run(self) -> StepResult:
        return self.session.step(self.plan, self.tape)

    @property
    def rows(self) -> tuple[Row, ...]:
        return rows_of(self.plan, self.layout)

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self.session.kv

    def skipped(self, action: int = 0) -> list[tuple[int, int]]:
        """(layer, row) pairs whose forced action is `action`."""
        lines = () if self.tape is None or self.mode == "dense" else self.tape.actions
        pairs = zip(self.model.routed_layers, lines, strict=False)
        return [(layer, row) for layer, line in pairs for row, taken in enumerate(line) if taken == action]


Break = Callable[[Step], StepResult]


class BrokenRuntime:
    """break_step: runs a pass and spoils it. open_layout: what the inner pool is opened with."""

    name = "broken"

    def __init__(
        self,
        break_step: Break,
        *,
        open_layout: Callable[[PoolLayout], PoolLayout] = lambda layout: layout,
        row_invariant: bool = True,
    ) -> None:
        self.break_step = break_step
        self.open_layout = open_layout
        self.capabilities: RuntimeCapabilities = replace(ReferenceRuntime.capabilities, row_invariant=row_invariant)

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> _Session:
        inner = ReferenceRuntime().open(model, policy, self.open_layout(layout), mode)
        return _Session(self.break_step, inner, model, layout, mode)


class _Session:
    def __init__(
        self, break_step: Break, inner: ReferenceSession, model: Model, layout: PoolLayout, mode: Mode
    ) -> None:
        self.break_step, self.inner, self.model, self.layout, self.mode = break_step, inner, model, layout, mode
        self.steps = 0

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self.inner.kv

    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        step = Step(
            session=self.inner,
            model=self.model,
            layout=self.layout,
            mode=self.mode,
            plan=plan,
            tape=tape,
            number=self.steps,
        )
        self.steps += 1
        return self.break_step(step)

    def close(self) -> None:
        self.inner.close()
