"""One living scheduler: fed through its own receive hook, inside its own event loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch

from conformance.runtimes.sglang.gpu import check_gpu_state
from conformance.runtimes.sglang.scheduler.accounts import accounts, snapshot
from conformance.runtimes.sglang.scheduler.build import Built
from conformance.runtimes.sglang.scheduler.channel import Channel, DirectChannel
from conformance.runtimes.sglang.scheduler.serve import serve
from conformance.runtimes.sglang.scheduler.watch import Watch, Watched
from properties.lifecycle.engine import Control, History, Served, Submission
from properties.runtime import Model
from vskipper.sglang.seams.wrap import unwrap_all

# a loop that has not become idle by then hangs
ITERATIONS = 2000


class _Idle(Exception):
    """Thrown through the event loop, which has no way out of its own."""


def is_idle(scheduler: Any) -> bool:
    """Whether no request is under way in it and no result is waiting."""
    return (
        not scheduler.waiting_queue
        and scheduler.running_batch.is_empty()
        and scheduler.last_batch is None
        and not getattr(scheduler, "result_queue", ())
    )


class SchedulerSession:
    """Implements LifecycleSession. discard: called at the end where the scheduler may not be used again. channel: by
    which requests come in and answers go out."""

    empty_keys = True

    def __init__(self, built: Built, model: Model, discard: Callable[[], None], channel: Channel | None = None) -> None:
        self._built, self._model, self._discard = built, model, discard
        self._channel: Channel = DirectChannel() if channel is None else channel
        self._scheduler = built.scheduler
        self._last: Watch | None = None
        self._sound = True
        built.publish()
        self._empty()

    def serve(self, served: Served) -> None:
        serve(self._scheduler.tp_worker.model_runner, self._model, served)

    def key_of(self, request: str) -> str | None:
        assert self._last is not None
        found = self._last.requests[request].object
        return None if found is None else found.extra_key

    def outputs_of(self, request: str) -> tuple[int, ...]:
        assert self._last is not None
        found = self._last.requests[request].object
        return () if found is None else tuple(found.output_ids)

    def close(self) -> None:
        unwrap_all()
        check_gpu_state(self._scheduler.tp_worker.model_runner.device)
        if not (self._sound and self._balanced()):
            self._discard()

    def run(self, control: Control) -> History:
        watch = self._last = Watch(self._scheduler)
        # until the loop has ended by itself, nobody knows what it left behind
        sound, self._sound = self._sound, False
        with self._watched(watch, partial(self._receive, watch, control)), torch.inference_mode():
            try:
                self._scheduler.run_event_loop()
            except _Idle:
                self._sound = sound
        return History(
            passes=watch.passes(),
            requests={name: each.ran() for name, each in watch.requests.items()},
            accounts=accounts(watch.snapshots),
            retracted=tuple(watch.retracted),
        )

    def _receive(self, watch: Watch, control: Control, *_: Any, **__: Any) -> list[Any]:
        """In place of what polls the sockets, at the start of an iteration."""
        watch.begin()
        commands = control(watch.iteration)
        if (commands is None and is_idle(self._scheduler)) or watch.iteration == ITERATIONS:
            raise _Idle if commands is None else RuntimeError(f"the loop is not idle after {ITERATIONS} iterations")
        watch.iteration += 1
        for command in commands or ():
            if isinstance(command, Submission):
                watch.requests[command.name] = Watched(sent=command)
        return self._channel.receive(commands or (), watch.requests)

    def _balanced(self) -> bool:
        """Whether the idle engine has every page once, on its list or in its tree, and every row of its table."""
        (found,) = accounts([snapshot(self._scheduler, {}, 0)])
        rows = self._scheduler.req_to_token_pool
        all_rows = len(set(rows.free_slots)) == len(rows.free_slots) == rows.size
        return all_rows and sorted((*found.free, *found.tree)) == list(range(1, found.total + 1))

    def _empty(self) -> None:
        """As the engine's own flush does, but for the garbage that it collects; what it learnt of requests goes too."""
        scheduler = self._scheduler
        scheduler.tree_cache.reset()
        scheduler.req_to_token_pool.clear()
        scheduler.token_to_kv_pool_allocator.clear()
        tracker = getattr(scheduler, "new_token_ratio_tracker", None)
        if tracker is None:
            scheduler.new_token_ratio = scheduler.init_new_token_ratio
        else:
            tracker.reset()

    @contextmanager
    def _watched(self, watch: Watch, receive: Any) -> Any:
        """The loop's input, what it calls around a pass, and its output, observed."""
        scheduler = self._scheduler
        receiver = getattr(scheduler, "request_receiver", scheduler)
        channels = getattr(scheduler, "ipc_channels", scheduler)

        def queue(request: Any, is_retracted: bool = False) -> Any:
            watch.queued(request, again=is_retracted)
            return type(scheduler)._add_request_to_queue(scheduler, request, is_retracted)

        def send(output: Any, *arguments: Any) -> None:
            watch.send(output)
            self._channel.send(output, *arguments)

        with ExitStack() as stack:
            for owner, name, replacement in (
                # of its class: newer receivers are frozen
                (type(receiver), "recv_requests", receive),
                (scheduler, "run_batch", partial(watch.run_batch, partial(_of_class, scheduler, "run_batch"))),
                (
                    scheduler,
                    "process_batch_result",
                    partial(watch.process_result, partial(_of_class, scheduler, "process_batch_result")),
                ),
                (scheduler, "_add_request_to_queue", queue),
                # idle housekeeping raises for what the suite is about to report
                (scheduler, "on_idle", lambda: None),
                (channels.send_to_detokenizer, "send_output", send),
            ):
                stack.enter_context(mock.patch.object(owner, name, replacement))
            yield


def _of_class(scheduler: Any, name: str, *arguments: Any, **keywords: Any) -> Any:
    """The method as it stands now: seams are put around it while the scheduler lives."""
    return getattr(type(scheduler), name)(scheduler, *arguments, **keywords)
