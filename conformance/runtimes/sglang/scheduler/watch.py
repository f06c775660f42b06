"""What a run of the scheduler's loop shows of itself: rows of every pass, finished requests with their KV, accounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.sglang.gpu import fall_behind
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.scheduler.accounts import Snapshot, lists, slots_of, snapshot
from properties.lifecycle.engine import FINISHED, Kv, Owner, Pass, Ran, Row, Submission
from vskipper.policy import Phase
from vskipper.request_key import request_key


@dataclass(slots=True, kw_only=True)
class Watched:
    """One request while it is under way. object: the engine's, once it has one."""

    sent: Submission
    object: Any = None
    plans: list[tuple[str, str] | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    finish: str | None = None
    slots: Tensor | None = None
    kv: Kv | None = None
    told: Any = None

    @property
    def over(self) -> bool:
        """Whether the engine has ended it."""
        return self.finish is not None or (self.object is not None and self.object.finished())

    def note_key(self) -> None:
        key = self.object.extra_key
        if not self.keys or self.keys[-1] != key:
            self.keys.append(key)

    def note_plan(self) -> None:
        state = getattr(self.object, "vskipper", None)
        self.plans.append(None if state is None else (str(state.plan.prefill), str(state.plan.decode)))

    def ran(self) -> Ran:
        found = self.object
        return Ran(
            name=self.sent.name,
            prompt=self.sent.tokens,
            outputs=() if found is None else tuple(found.output_ids),
            plans=tuple(self.plans),
            filed_under=tuple(self.keys),
            cached=0 if found is None else found.cached_tokens,
            retractions=0 if found is None else found.retraction_count,
            finish=self.finish,
            slots=() if self.slots is None else tuple(self.slots.tolist()),
            kv=self.kv,
            told=self.told,
            logprobs=tuple(getattr(found, "output_token_logprobs_val", None) or _nested(found)),
            attributes=frozenset() if found is None else frozenset(vars(found)),
        )


def _nested(request: Any) -> tuple[float, ...]:
    """Where newer versions keep log-probabilities together."""
    return tuple(getattr(getattr(request, "logprob", None), "output_token_logprobs_val", None) or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A pass. places: request and position of each row. slots: theirs, int64, on the device. source: what holds its
    evidence."""

    iteration: int
    decode: bool
    places: list[tuple[str, int]]
    slots: Tensor
    replayed: bool
    source: Any


class Watch:
    """Observes one scheduler; nothing that it computes with is changed, but that a GPU falls behind its host."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.iteration = 0
        self.requests: dict[str, Watched] = {}
        self._ran: list[_Ran] = []
        self.snapshots: list[Snapshot] = []
        self.retracted: list[tuple[int, str]] = []

    def begin(self) -> None:
        """Before an iteration."""
        objects = {name: each.object for name, each in self.requests.items() if each.object is not None}
        self.snapshots.append(snapshot(self.scheduler, objects, self.iteration))

    def queued(self, request: Any, *, again: bool) -> None:
        """A request enters the waiting queue, for the first time or again after its KV was taken."""
        watched = self.requests[request.rid]
        watched.object = request
        watched.note_key()
        if again:
            self.retracted.append((self.iteration, request.rid))

    def run_batch(self, original: Callable[..., Any], batch: Any, *arguments: Any, **keywords: Any) -> Any:
        decode = bool(batch.forward_mode.is_decode())
        places, slots = _places(batch), batch.out_cache_loc.to(torch.int64, copy=True)
        for request in batch.reqs:
            self.requests[request.rid].note_plan()
        device = self.scheduler.tp_worker.model_runner.device
        fall_behind(device, len(self._ran), getattr(self.scheduler, "forward_stream", None))
        result = original(batch, *arguments, **keywords)
        self._ran.append(
            _Ran(
                iteration=self.iteration,
                decode=decode,
                places=places,
                slots=slots,
                replayed=bool(getattr(result, "can_run_cuda_graph", False)),
                source=getattr(result, "vskipper", None),
            )
        )
        return result

    def process_result(self, original: Callable[..., Any], batch: Any, *arguments: Any, **keywords: Any) -> Any:
        running = [request for request in batch.reqs if self.requests[request.rid].finish is None]
        slots = {
            request.rid: slots_of(self.scheduler, request, len(request.origin_input_ids) + len(request.output_ids))
            for request in running
        }
        answer = original(batch, *arguments, **keywords)
        for request in running:
            watched = self.requests[request.rid]
            watched.note_key()
            if request.finished():
                self._finished(watched, slots[request.rid])
        return answer

    def send(self, output: Any) -> None:
        """What goes to the detokenizer."""
        told = _customized(output)
        for index, name in enumerate(getattr(output, "rids", None) or ()):
            if index < len(told) and told[index]:
                self.requests[name].told = told[index][0]

    def _finished(self, watched: Watched, slots: Tensor) -> None:
        watched.finish = watched.object.finished_reason.to_json()["type"]
        if watched.finish not in FINISHED:
            return
        pool = self.scheduler.token_to_kv_pool_allocator.get_kvcache()
        # freed slots keep their bytes until the next pass
        watched.slots = slots
        watched.kv = tuple((k[slots].clone(), v[slots].clone()) for k, v in raw(pool))

    def passes(self) -> tuple[Pass, ...]:
        """All that ran. Asked for once the loop has ended: a pass runs on a stream of its own, and its evidence may not
        be there when the batch is."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        slots = lists([each.slots for each in self._ran])
        return tuple(self._recorded(*each) for each in zip(self._ran, slots, strict=True))

    def _recorded(self, each: _Ran, slots: list[int]) -> Pass:
        rows = (Row(request=name, position=at, slot=slot) for (name, at), slot in zip(each.places, slots, strict=True))
        ran = Pass(iteration=each.iteration, decode=each.decode, rows=tuple(rows), replayed=each.replayed)
        source = each.source
        evidence = source.evidence[-1] if source is not None and source.evidence else None
        if evidence is None:
            return ran
        names = {request_key(name): name for name in self.requests}
        owners = tuple(
            Owner(
                request=names.get(stretch.state.key),
                position=position,
                decode=stretch.phase == Phase.DECODE,
                dense=stretch.dense,
            )
            for stretch in evidence.stretches
            for position in range(stretch.first, stretch.first + stretch.count)
        )
        actions = tuple(tuple(line) for line in evidence.actions.tolist())
        return replace(ran, actions=actions, owners=owners)


def _places(batch: Any) -> list[tuple[str, int]]:
    """Request and position of each row of the engine's batch, before it runs: chunks in an extend, else one row a
    request."""
    if batch.forward_mode.is_extend():
        spans = list(zip(batch.prefix_lens, batch.extend_lens, strict=True))
    else:
        lengths = batch.seq_lens if batch.seq_lens_cpu is None else batch.seq_lens_cpu
        spans = [(length - 1, 1) for length in lengths.tolist()]
    return [
        (request.rid, position)
        for request, (first, count) in zip(batch.reqs, spans, strict=True)
        for position in range(first, first + count)
    ]


def _customized(output: Any) -> list[Any]:
    """One list a request, empty until it has finished; newer versions wrap them for the way."""
    info: Any = getattr(output, "customized_info", None)
    info = getattr(info, "value", info)
    told: list[Any] = (info or {}).get("vskipper", [])
    return told
