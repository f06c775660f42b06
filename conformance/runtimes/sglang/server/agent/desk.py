"""What the suite may ask of a server: sessions on its ModelRunner, and a watched run of its scheduler's loop."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from conformance.runtimes.sglang.engine import Engine
from conformance.runtimes.sglang.pool import new_pool, place
from conformance.runtimes.sglang.scheduler.build import Built
from conformance.runtimes.sglang.scheduler.session import SchedulerSession
from conformance.runtimes.sglang.server.agent.channel import HeldChannel
from conformance.runtimes.sglang.server.shared import SharedPool, share
from conformance.runtimes.sglang.server.wire import Commands, Due, send
from conformance.runtimes.sglang.session import SGLangSession
from properties.lifecycle.engine import Command, History, Served
from properties.runtime import Mode, Model, StepResult
from reference.plan import PoolLayout, StepPlan, TapePlan
from vskipper.errors import InputError
from vskipper.sglang import process


class Desk:
    """Each public method is a call of the suite. answer: takes further calls, and returns what is none."""

    def __init__(self, scheduler: Any, connection: Connection, answer: Callable[[Desk], Any]) -> None:
        self._scheduler, self._connection, self._answer = scheduler, connection, answer
        self._runner = scheduler.tp_worker.model_runner
        self._pool = self._runner.token_to_kv_pool
        self._sessions: dict[int, SGLangSession] = {}
        self._life: SchedulerSession | None = None
        self._sound = True

    def close(self) -> None:
        """The server is left as it began: with its own pool, and with what it was configured to serve."""
        place(self._runner, self._pool)
        if hasattr(self._runner.model, "vskipper"):
            self._runner.model.vskipper = process.start(self._runner.model)

    def check_stock(self, stock: bool) -> None:
        """Raises InputError unless the model's class is vSkipper's, or the engine's own where `stock` is asked for."""
        if hasattr(self._runner.model, "vskipper") == stock:
            got = type(self._runner.model).__module__
            expected = "the engine's own" if stock else "one of vSkipper's"
            raise InputError("model class", where="server", got=got, expected=expected)

    def open_session(
        self, number: int, model: Model, policy: bytes, layout: PoolLayout, mode: Mode, file: Path
    ) -> SharedPool:
        """A Session of that number, whose pool lies in `file`. policy: pickled."""
        pool = new_pool(self._pool, layout)
        shared = share(pool, file)
        # what the engine publishes in a process of its own stays published
        engine = Engine(runner=self._runner, pool=self._pool, publish=lambda: None)
        self._sessions[number] = SGLangSession(
            engine=engine, pool=pool, model=model, policy=pickle.loads(policy), layout=layout, mode=mode
        )
        return shared

    def step(self, number: int, plan: StepPlan, tape: TapePlan | None) -> StepResult:
        return self._sessions[number].step(plan, tape)

    def close_session(self, number: int) -> None:
        self._sessions.pop(number).close()
        place(self._runner, self._pool)

    def open_life(self, model: Model) -> None:
        """A LifecycleSession."""
        built = Built(scheduler=self._scheduler, model=self._runner.model, publish=lambda: None, sockets=())
        channel = HeldChannel(self._scheduler, self._connection)
        self._life = SchedulerSession(built, model, self._spoilt, channel)

    def serve(self, served: Served) -> None:
        self._open_life.serve(served)

    def key_of(self, request: str) -> str | None:
        return self._open_life.key_of(request)

    def outputs_of(self, request: str) -> tuple[int, ...]:
        return self._open_life.outputs_of(request)

    def run(self) -> History:
        return self._open_life.run(self._control)

    def close_life(self) -> bool:
        """Whether the engine may be used again."""
        self._open_life.close()
        self._life = None
        return self._sound

    @property
    def _open_life(self) -> SchedulerSession:
        if self._life is None:
            raise RuntimeError("no lifecycle session is open")
        return self._life

    def _spoilt(self) -> None:
        self._sound = False

    def _control(self, iteration: int) -> tuple[Command, ...] | None:
        """A Control: the suite's."""
        send(self._connection, Due(iteration=iteration))
        answer = self._answer(self)
        if not isinstance(answer, Commands):
            raise RuntimeError(f"commands of iteration {iteration}: got {answer}")
        return answer.commands
