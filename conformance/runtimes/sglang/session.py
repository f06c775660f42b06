"""One model in one pool, stepped by SGLang's own forward passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.forced import ForcedPolicy
from conformance.runtimes.refusals import check_plan
from conformance.runtimes.sglang.build import REQUESTS
from conformance.runtimes.sglang.engine import Engine
from conformance.runtimes.sglang.gpu import check_gpu_state
from conformance.runtimes.sglang.padding import marked_maps, padded
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.streams import recorded, stacked
from properties.row_batch import batch_of
from properties.runtime import LayerWork, Mode, Model, StepResult
from reference.plan import PoolLayout, StepPlan, TapePlan
from vskipper.errors import InputError
from vskipper.execution.routed_pass import Evidence, RoutedPass
from vskipper.sglang.passes import PassPlan, published


class SGLangSession:
    """Implements Session. pool: the engine's, of the layout. In mode dense nothing is published, so that the engine
    runs its own forward alone."""

    def __init__(self, *, engine: Engine, pool: Any, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> None:
        self._engine, self._model = engine, model
        self._policy, self._mode, self._layout = policy, mode, layout
        self._pool = pool
        self._device = engine.runner.device
        self._old = torch.zeros(0, model.config.hidden_size, dtype=model.dtype, device=self._device)

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return raw(self._pool)

    def close(self) -> None:
        self._pool = None
        check_gpu_state(self._device)

    def step(self, plan: StepPlan, tape: TapePlan | None = None) -> StepResult:
        check_plan(plan, self._layout)
        self._check(plan)
        with padded(self._engine.decoder, plan, self._old), recorded(self._engine.decoder) as streams:
            logits, run = self._dense(plan) if self._mode == "dense" else self._routed(plan, tape)
        hidden = stacked(streams, self._model.config.num_hidden_layers)[:, : plan.rows]
        self._old = hidden[-1].clone()
        # the engine reuses the buffer of its logits
        result = StepResult(
            logits=logits[: len(plan.chunks)].clone(),
            hidden=hidden,
            actions=torch.zeros(0, plan.rows, dtype=torch.uint8),
        )
        return result if run is None else with_evidence(result, run, plan.rows)

    def _dense(self, plan: StepPlan) -> tuple[Tensor, None]:
        return self._engine.run(plan, self._pool), None

    def _routed(self, plan: StepPlan, tape: TapePlan | None) -> tuple[Tensor, RoutedPass]:
        done: list[RoutedPass] = []
        decoder = self._engine.vskipper
        decoder.policy = self._policy if tape is None else self._forced(plan, tape)
        with torch.device(self._device):
            rows = batch_of(plan, padding=plan.padding)
        with marked_maps(), published(PassPlan(rows=rows, force_run=None, done=done.append, keep_weights=True)):
            logits = self._engine.run(plan, self._pool)
        if len(done) != 1:
            raise RuntimeError(f"routed pass: got {len(done)} records of what ran, expected 1")
        return logits, done[0]

    def _forced(self, plan: StepPlan, tape: TapePlan) -> ForcedPolicy:
        like = torch.empty(0, dtype=self._model.dtype, device=self._device)
        return ForcedPolicy(self._policy, self._model.routed_layers, tape, plan.rows + plan.padding, like)

    def _check(self, plan: StepPlan) -> None:
        where = "step plan on SGLang"
        if len(plan.chunks) + plan.padding > REQUESTS:
            got = f"{len(plan.chunks)} and {plan.padding}"
            raise InputError("chunks and padding rows", where=where, got=got, expected=f"{REQUESTS} or fewer in all")
        longest = max(chunk.start + len(chunk.tokens) for chunk in plan.chunks)
        if longest > self._engine.context_length:
            expected = f"{self._engine.context_length} or fewer"
            raise InputError("positions of a request", where=where, got=longest, expected=expected)


def with_evidence(result: StepResult, run: RoutedPass, rows: int, copy: Evidence | None = None) -> StepResult:
    """What the pass recorded of itself and its valid rows, added to its outputs; `copy`: of actions and counts, where
    they lie in buffers that a later pass writes again."""
    actions, counts = (run.tape.actions, run.work.counts) if copy is None else (copy.actions, copy.counts)
    return replace(
        result,
        actions=actions[:, :rows],
        weights=None if run.tape.weights is None else run.tape.weights[:, :rows],
        work=layer_work(counts),
        cohorts=tuple((cohorts.rows, cohorts.offsets) for cohorts in run.plans),
    )


def layer_work(counts: Tensor) -> tuple[LayerWork, ...]:
    """counts: int64 [routed layers, branches]."""
    return tuple(LayerWork(attention=a, mlp=m, projector=p, kv_rows=kv) for a, m, p, kv in counts.tolist())
