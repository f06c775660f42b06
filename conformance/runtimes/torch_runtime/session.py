"""One model in one pool, stepped by vSkipper's executor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.forced import ForcedPolicy
from conformance.runtimes.refusals import check_plan
from conformance.runtimes.torch_runtime.attention import PagedAttention, Pool
from conformance.runtimes.torch_runtime.modules import TorchModules
from conformance.runtimes.torch_runtime.rows import Rows, build_rows
from properties.runtime import LayerWork, Mode, Model, StepResult
from reference.plan import Fill, PoolLayout, StepPlan, TapePlan
from vskipper.execution.branches import Branches
from vskipper.execution.dense_layer import dense_layer
from vskipper.execution.protocols import Attention
from vskipper.execution.routed_layer import RoutedLayer
from vskipper.execution.routed_pass import RoutedPass, open_pass
from vskipper.policy import SkipPolicy

Stream = tuple[Tensor, Tensor | None]
FILLS: dict[Fill, float] = {"zero": 0.0, "nan": float("nan"), "inf": float("inf")}
UNWRITTEN = -1


class TorchSession:
    """Implements Session. In mode dense no policy hook runs and no cohort exists."""

    def __init__(
        self, *, model: Model, modules: TorchModules, policy: Any, layout: PoolLayout, mode: Mode, branches: Branches
    ) -> None:
        self._model, self._modules, self._policy = model, modules, policy
        self._mode, self._branches = mode, branches
        self._pool = Pool(model.config, layout, model.dtype)
        self._old = torch.zeros(0, model.config.hidden_size, dtype=model.dtype)

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return self._pool.layers

    def close(self) -> None:
        self._pool = Pool(self._model.config, PoolLayout(page_size=1, pages=0), self._model.dtype)

    @torch.no_grad()
    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        check_plan(plan, self._pool.layout)
        rows = build_rows(plan, self._pool.layout.page_size)
        hidden = self._embed(rows, plan)
        if self._mode == "dense":
            attention = PagedAttention(self._model.config, self._pool, rows)
            streams = self._run(hidden, rows, attention, {}, None)
            return self._dense_result(streams, rows, plan)
        policy = self._policy if tape is None else self._forced(tape, hidden)
        run = self._open_pass(policy, rows)
        streams = self._run(hidden, rows, run.attention, self._routed_layers(policy), run)
        return self._routed_result(streams, rows, plan, run)

    def _forced(self, tape: TapePlan, hidden: Tensor) -> ForcedPolicy:
        return ForcedPolicy(self._policy, self._model.routed_layers, tape, hidden.shape[0], hidden)

    def _embed(self, rows: Rows, plan: StepPlan) -> Tensor:
        hidden = self._modules.embedding[rows.batch.token_ids]
        if plan.padding and plan.fill == "old":
            old = self._old.repeat(plan.padding, 1)[: plan.padding]
            hidden[plan.rows : plan.rows + old.shape[0]] = old
        elif plan.padding:
            hidden[plan.rows :] = FILLS[plan.fill]
        return hidden

    def _open_pass(self, policy: SkipPolicy, rows: Rows) -> RoutedPass:
        attention = PagedAttention(self._model.config, self._pool, rows)
        run = open_pass(policy, self._model.routed_layers, rows.batch, attention, keep_weights=True)
        for plan in run.plans:
            plan.rows.fill_(UNWRITTEN)
        return run

    def _routed_layers(self, policy: SkipPolicy) -> dict[int, RoutedLayer]:
        return {
            layer: RoutedLayer(
                layer=layer, index=index, modules=self._modules.layers[layer], policy=policy, branches=self._branches
            )
            for index, layer in enumerate(self._model.routed_layers)
        }

    def _run(
        self,
        hidden: Tensor,
        rows: Rows,
        attention: Attention,
        routed: dict[int, RoutedLayer],
        run: RoutedPass | None,
    ) -> Tensor:
        """The residual stream entering each layer and leaving the last, [layers + 1, rows, hidden]."""
        stream: Stream = (hidden, None)
        streams = [hidden]
        for number, modules in enumerate(self._modules.layers):
            if run is not None and number in routed:
                stream = routed[number](*stream, run)
            else:
                stream = dense_layer(number, modules, *stream, rows.batch.positions, attention)
            streams.append(_sum(stream))
        return torch.stack(streams)

    def _dense_result(self, streams: Tensor, rows: Rows, plan: StepPlan) -> StepResult:
        hidden = streams[:, : plan.rows]
        self._old = hidden[-1].clone()
        actions = torch.zeros(0, plan.rows, dtype=torch.uint8)
        return StepResult(logits=self._modules.logits(hidden[-1][rows.last]), hidden=hidden, actions=actions)

    def _routed_result(self, streams: Tensor, rows: Rows, plan: StepPlan, run: RoutedPass) -> StepResult:
        counts = run.work.counts.tolist()
        return replace(
            self._dense_result(streams, rows, plan),
            actions=run.tape.finish()[:, : plan.rows].clone(),
            weights=None if run.tape.weights is None else run.tape.weights[:, : plan.rows].clone(),
            work=tuple(LayerWork(attention=a, mlp=m, projector=p, kv_rows=kv) for a, m, p, kv in counts),
            cohorts=tuple((cohorts.rows, cohorts.offsets) for cohorts in run.plans),
        )


def _sum(stream: Stream) -> Tensor:
    hidden, residual = stream
    return hidden if residual is None else hidden + residual
