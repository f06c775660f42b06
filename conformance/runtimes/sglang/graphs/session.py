"""Decode passes through the engine's own graph runner, each replayed or run once more as it was captured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from conformance.runtimes.sglang.around import around
from conformance.runtimes.sglang.gpu import check_gpu_state, fall_behind, hold_up
from conformance.runtimes.sglang.graphs.build import GraphBuilt
from conformance.runtimes.sglang.graphs.hooks import capturing, replaying
from conformance.runtimes.sglang.graphs.waits import without_waits
from conformance.runtimes.sglang.padding import FILLS
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.session import layer_work, with_evidence
from conformance.runtimes.sglang.streams import stacked
from properties.graph.engine import Decided, Variant, Way
from properties.row_batch import request_key
from properties.runtime import Model, StepResult
from reference.plan import Chunk, Fill, StepPlan, TapePlan
from vskipper.errors import PolicyError
from vskipper.execution.routed_pass import Evidence
from vskipper.sglang.batches import BatchPass, PassEvidence
from vskipper.sglang.graphs.buffers import CapturedPass
from vskipper.sglang.passes import published
from vskipper.sglang.request import RequestMode, RequestPlan, RequestState

# a captured graph embeds no row of an older pass: any number stands for one
CONSTANTS: dict[Fill, float] = FILLS | {"old": 3.0}


class GraphPasses:
    """Implements GraphSession over the engine's own pool."""

    def __init__(self, built: GraphBuilt, model: Model, until: ExitStack | None = None) -> None:
        """until: what the end of the session gives back."""
        self._built, self._model = built, model
        self._until = until or ExitStack()
        self._odd = False
        self._waits = False
        self._passes = 0

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return raw(self._built.engine.pool)

    @property
    def code_runs(self) -> int:
        return self._built.recorder.code_runs

    def close(self) -> None:
        with self._until:
            self.fill_padding("zero")
            check_gpu_state(self._built.engine.runner.device)

    def fill_padding(self, fill: Fill) -> None:
        self._odd = fill != "zero"
        self._built.recorder.padding.values.fill_(CONSTANTS[fill])
        if self._odd:
            page = self._built.engine.pool.page_size
            for tensor in (part for pair in self.kv for part in pair):
                tensor[:page] = CONSTANTS[fill]

    @contextmanager
    def no_waits(self) -> Iterator[None]:
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def decode(
        self, plan: StepPlan, tape: TapePlan | None, *, variant: Variant = "routed", way: Way = "replay"
    ) -> StepResult:
        built = self._built
        if tape is not None and built.tape is not None:
            built.tape.play(tape, odd=self._odd)
        built.recorder.padding.mask[: plan.rows] = False
        built.recorder.padding.mask[plan.rows :] = self._odd
        source = None if variant == "dense" else _source(plan, frozenset())
        batch = built.engine.batch(plan, built.engine.pool)
        # not before: making a batch waits for the device
        fall_behind(built.engine.runner.device, self._passes)
        self._passes += 1
        with self._replaying(way), published(source):
            logits = built.engine.forward(batch)
        return self._result(plan, logits, [] if source is None else source.evidence)

    def decode_all(self, plans: Sequence[StepPlan], dense: Sequence[frozenset[str]]) -> tuple[Decided, ...]:
        engine = self._built.engine
        self._built.recorder.padding.mask.fill_(False)
        sources = [_source(plan, apart) for plan, apart in zip(plans, dense, strict=True)]
        with self._replaying("replay"):
            batches = [engine.batch(plan, engine.pool) for plan in plans]
            hold_up(engine.runner.device)
            for batch, source in zip(batches, sources, strict=True):
                with published(source):
                    engine.forward(batch)
        found = [source.evidence[0] for source in sources]
        for each in found:
            each.wait()
        return tuple(Decided(actions=each.actions.clone(), work=layer_work(each.counts)) for each in found)

    @contextmanager
    def _replaying(self, way: Way) -> Iterator[None]:
        """The recorder around the engine's replays; the host may not wait in one where that is watched."""
        recorder = self._built.recorder
        recorder.twin = way == "twin"
        recorder.last = None
        with ExitStack() as stack:
            stack.enter_context(replaying(recorder))
            stack.enter_context(capturing(recorder))
            stack.enter_context(around(CapturedPass, "plan", recorder.plan))
            if self._waits:
                stack.enter_context(without_waits())
            yield

    def _result(self, plan: StepPlan, logits: Tensor, evidence: Sequence[PassEvidence]) -> StepResult:
        record = self._built.recorder.last
        if record is None:
            raise RuntimeError(f"decode of {plan.rows} rows: no graph was replayed")
        result = StepResult(
            logits=logits[: plan.rows].clone(),
            hidden=stacked(list(record.streams), self._model.config.num_hidden_layers)[:, : plan.rows],
            actions=torch.zeros(0, plan.rows, dtype=torch.uint8),
        )
        if record.run is None or not evidence:
            return result
        (found,) = evidence
        found.wait()
        copy = Evidence(actions=found.actions, counts=found.counts)
        return with_evidence(result, record.run, plan.rows, copy)


def _source(plan: StepPlan, dense: frozenset[str]) -> BatchPass:
    """As the scheduler hands a batch over whose requests decode routed, but those in `dense`."""
    return BatchPass([_state(chunk, chunk.request in dense) for chunk in plan.chunks], _failed, _uncovered)


def _state(chunk: Chunk, dense: bool) -> RequestState:
    mode = RequestMode.DENSE if dense else RequestMode.ROUTED
    plan = RequestPlan(prefill=mode, decode=mode)
    return RequestState(plan=plan, key=request_key(chunk.request), prompt_length=chunk.start)


def _failed(number: int, error: PolicyError) -> None:
    raise error


def _uncovered(number: int, position: int) -> None:
    raise RuntimeError(f"request {number} of a batch that has a routed graph ran without one")
