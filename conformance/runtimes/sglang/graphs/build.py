"""An engine whose decode graphs are captured under the suite's eyes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from conformance.runtimes.sglang.around import around
from conformance.runtimes.sglang.build import build
from conformance.runtimes.sglang.engine import Engine
from conformance.runtimes.sglang.graphs.hooks import capturing
from conformance.runtimes.sglang.graphs.record import Padding, Recorder
from conformance.runtimes.sglang.graphs.tape import StaticTape
from conformance.runtimes.sglang.process import prepare, remember
from conformance.runtimes.sglang.seat import Seat
from properties.runtime import Model
from vskipper.policy import SkipPolicy
from vskipper.sglang import process
from vskipper.sglang.graphs.buffers import CapturedPass
from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.seams import decode_runner


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBuilt:
    """tape: None where the policy itself was captured."""

    engine: Engine
    recorder: Recorder
    tape: StaticTape | None


def build_graphs(model: Model, seat: Seat, policy: SkipPolicy, *, forced: bool) -> GraphBuilt:
    """Raises InputError as build() does."""
    prepare()
    rows = max(seat.graphs)
    like = next(iter(model.tensors.values())).new_empty(0, device=seat.device)
    recorder = Recorder(Padding(rows, model.config.hidden_size, like))
    tape = StaticTape(policy, model.routed_layers, rows, like, weighted=model.weighted) if forced else None
    with ExitStack() as stack:

        def started(original: Any, module: Any) -> Any:
            decoder = original(module)
            decoder.policy = policy if tape is None else tape
            # its hooks stay: a twin runs the same code
            recorder.listen(module.model)
            return decoder

        def captured(original: Any, graphs: Any, capture: Any, runner: Any, size: int, *more: Any, **named: Any) -> Any:
            if tape is not None:
                tape.play_captured(size)
            return original(graphs, capture, runner, size, *more, **named)

        stack.enter_context(around(process, "start", started))
        stack.enter_context(around(RoutedGraphs, "capture", captured))
        stack.enter_context(around(CapturedPass, "plan", recorder.plan))
        stack.enter_context(capturing(recorder))
        built = build(model, seat)
    runner = built.runner
    restore = remember(built.arguments)

    def publish() -> None:
        """The seams stand once a process; what they lead to is the engine's that runs."""
        restore()
        decode_runner.install(runner.model.vskipper.graphs)

    engine = Engine(runner=runner, pool=runner.token_to_kv_pool, publish=publish)
    return GraphBuilt(engine=engine, recorder=recorder, tape=tape)
