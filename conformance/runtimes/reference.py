"""The oracle as a runtime under test: the control, which every property must pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.refusals import check_layout, check_plan
from properties.graph.engine import GraphEngine
from properties.row_batch import batch_of
from properties.runtime import LayerWork, Mode, Model, RuntimeCapabilities, StepResult
from reference.model import ReferenceModel, ReferenceResult
from reference.plan import PoolLayout, StepPlan, TapePlan
from reference.pool import PagedPool
from vskipper.action import COHORT_ORDER, Action


class ReferenceRuntime:
    """Row by row, hence row invariant; padding rows are left out altogether."""

    name = "reference"
    capabilities = RuntimeCapabilities(row_invariant=True, kv_dtypes=(None, "bfloat16"))

    @property
    def graphs(self) -> GraphEngine:
        """What stands in for its captured decode passes."""
        from conformance.runtimes.reference_graphs import ReferenceGraphs

        return ReferenceGraphs()

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> ReferenceSession:
        check_layout(layout)
        return ReferenceSession(model, policy, layout, mode)


class ReferenceSession:
    """A ReferenceModel and its pool."""

    def __init__(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> None:
        self.model = model
        self.policy = policy
        self.mode = mode
        self.pool = PagedPool(model.config, layout, model.dtype)
        self.reference = ReferenceModel(
            model.config, model.tensors, model.routed_layers, dtype=model.dtype, project=self._project
        )
        self._state: Any = None

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self.pool.kv

    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        check_plan(plan, self.pool.layout)
        if self.mode == "dense":
            return _result(self.reference.step(self.pool, plan), plan)
        self._state = self.policy.begin(batch_of(plan))
        return _result(self.reference.step(self.pool, plan, self._decide if tape is None else tape), plan)

    def close(self) -> None:
        """Nothing is held beyond the session's own tensors."""

    def _decide(self, layer: int, x: Tensor, /) -> tuple[Sequence[int], Tensor | None]:
        route = self.policy.route(layer, x, self._state)
        return route.actions.tolist(), route.weights

    def _project(self, layer: int, y: Tensor) -> Tensor:
        project = getattr(self.policy, "project", None)
        if project is None:
            return torch.zeros_like(y)
        projected: Tensor = project(layer, y[None], self._state)[0]
        return projected


def _result(ran: ReferenceResult, plan: StepPlan) -> StepResult:
    routed = ran.actions
    return StepResult(
        logits=ran.logits,
        hidden=ran.hidden,
        actions=torch.tensor(routed, dtype=torch.uint8).reshape(len(routed), plan.rows),
        weights=ran.weights,
        work=tuple(_work(line) for line in routed),
        cohorts=tuple(_cohorts(line, plan.rows + plan.padding) for line in routed),
    )


def _work(line: Sequence[int]) -> LayerWork:
    actions = [Action(action) for action in line]
    return LayerWork(
        attention=sum(action.attention for action in actions),
        mlp=sum(action.mlp for action in actions),
        projector=actions.count(Action.PROJECT_ONLY),
        kv_rows=len(actions),
    )


def _cohorts(line: Sequence[int], capacity: int) -> tuple[Tensor, Tensor]:
    """The map as it should be; -1 where nothing is written."""
    rows: list[int] = []
    offsets = [0]
    for action in COHORT_ORDER:
        rows += [row for row, taken in enumerate(line) if taken == action]
        offsets.append(len(rows))
    rows += [-1] * (capacity - len(rows))
    return torch.tensor(rows, dtype=torch.int32), torch.tensor(offsets, dtype=torch.int32)
