"""The oracle in place of captured graphs: the control, which every property of level graph must pass."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from conformance.runtimes.reference import ReferenceRuntime, ReferenceSession
from properties.graph.engine import Variant, Way
from properties.runtime import Model, StepResult
from reference.plan import Fill, PoolLayout, StepPlan, TapePlan

SLOTS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceGraphs:
    """Implements GraphEngine: padding rows do not exist, and a replay is the code."""

    sizes: tuple[int, ...] = (1, 2, 4)

    def open(
        self, model: Model, policy: Any, page_size: int, *, forced: bool, slots: int | None = None
    ) -> ReferenceReplays:
        layout = PoolLayout(page_size=page_size, pages=-(-(slots or SLOTS) // page_size))
        return ReferenceReplays(ReferenceRuntime().open(model, policy, layout, "routed"))


class ReferenceReplays:
    """Implements GraphSession."""

    code_runs = 0

    def __init__(self, session: ReferenceSession) -> None:
        self._session = session

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self._session.kv

    def decode(
        self, plan: StepPlan, tape: TapePlan | None, *, variant: Variant = "routed", way: Way = "replay"
    ) -> StepResult:
        self._session.mode = variant
        return self._session.step(plan, tape)

    def fill_padding(self, fill: Fill) -> None:
        """There is none."""

    def no_waits(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self._session.close()
