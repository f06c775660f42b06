"""An engine of this process: a runner and the process-wide state that it runs under, built once a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.sglang.batch import forward_batch
from conformance.runtimes.sglang.build import build
from conformance.runtimes.sglang.pool import place
from conformance.runtimes.sglang.process import prepare, remember
from conformance.runtimes.sglang.seat import CPU_SEAT, Seat
from properties.runtime import Model
from reference.plan import StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """runner: SGLang's ModelRunner. pool: the KV pool that it made for itself, the pattern of the sessions' own.
    publish: makes its state the process's own."""

    runner: Any
    pool: Any
    publish: Callable[[], None]

    @property
    def decoder(self) -> Any:
        """SGLang's module of embedding, layers and final norm."""
        return self.runner.model.model

    @property
    def vskipper(self) -> Any:
        """vSkipper's side of the model."""
        return self.runner.model.vskipper

    @property
    def context_length(self) -> int:
        return int(self.runner.req_to_token_pool.req_to_token.shape[1])

    def run(self, plan: StepPlan, pool: Any) -> Tensor:
        """One forward pass over `pool`; logits [chunks, vocab] of each chunk's last row."""
        return self.forward(self.batch(plan, pool))

    def batch(self, plan: StepPlan, pool: Any) -> Any:
        """The engine's ForwardBatch of the plan over `pool`. It shares the table of requests with the one before."""
        self.publish()
        place(self.runner, pool)
        return forward_batch(self.runner, plan, pool.page_size)

    def forward(self, batch: Any) -> Tensor:
        """Run it; logits as run() gives them."""
        with torch.no_grad():
            return _logits(self.runner.forward(batch))


def _logits(output: Any) -> Tensor:
    """Of what a runner's forward answers: the logits processor's output, in a pair or wrapped."""
    if isinstance(output, tuple):
        output = output[0]
    logits: Tensor = getattr(output, "logits_output", output).next_token_logits
    return logits


_engines: dict[object, Engine] = {}


def open_engine(model: Model, seat: Seat = CPU_SEAT) -> Engine:
    """The engine of a model's folder, dtype and routed layers in a seat; building one takes seconds, the first of all
    longer."""
    key = (model.directory, model.dtype, model.routed_layers, seat)
    if key not in _engines:
        prepare()
        built = build(model, seat)
        runner = built.runner
        _engines[key] = Engine(runner=runner, pool=runner.token_to_kv_pool, publish=remember(built.arguments))
    return _engines[key]
