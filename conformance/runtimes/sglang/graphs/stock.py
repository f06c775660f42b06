"""Decode passes from the graphs that the engine captures where the plugin is off."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.runtimes.sglang.build import build
from conformance.runtimes.sglang.engine import Engine
from conformance.runtimes.sglang.gpu import check_gpu_state
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.process import prepare, remember
from conformance.runtimes.sglang.seat import Seat
from properties.runtime import Model
from reference.plan import StepPlan
from vskipper.sglang.seams.wrap import unwrap_all


class StockPasses:
    """Implements StockGraphSession over the engine's own pool."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return raw(self._engine.pool)

    def decode(self, plan: StepPlan) -> Tensor:
        logits = self._engine.run(plan, self._engine.pool)
        return logits[: plan.rows].clone()

    def close(self) -> None:
        check_gpu_state(torch.device(self._engine.runner.device))


def build_stock(model: Model, seat: Seat) -> Engine:
    """Raises InputError as build() does."""
    prepare()
    unwrap_all()
    built = build(model, seat, plugin=False)
    runner = built.runner
    restore = remember(built.arguments)

    def publish() -> None:
        unwrap_all()
        restore()

    return Engine(runner=runner, pool=runner.token_to_kv_pool, publish=publish)
