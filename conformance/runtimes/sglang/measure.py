"""What the plugin costs on SGLang's CPU engine: `python -m conformance.runtimes.sglang.measure` prints two tables, of a
server's start and of a routed pass that skips nothing. Ways take turns, and processor time is counted beside or in
place of the clock's, which says more of a busy machine than of the plugin."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from conformance.runtimes.sglang.engine import Engine, open_engine
from conformance.runtimes.sglang.pool import new_pool
from conformance.runtimes.sglang.server.command import Launch, Way
from conformance.runtimes.sglang.server.family import family_of
from conformance.runtimes.sglang.server.process import running
from conformance.subjects import SubjectSpec, build_subject
from properties.property import Subject
from reference.plan import Chunk, PoolLayout, StepPlan
from vskipper.errors import PolicyError
from vskipper.sglang.batches import BatchPass
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.passes import published
from vskipper.sglang.request import RequestMode, RequestPlan, RequestState, new_state
from vskipper.validate.checked import CheckedPolicy

POLICY: Final = "static-depth"
SETTINGS: Final = {"ratio": 0.0}
ARGUMENTS: Final = ("--max-total-tokens", "2048", "--mem-fraction-static", "0.5")
# tokens of a prompt, and the position of a decode row
PROMPT: Final = 64
WARM_UP: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Of one server until it is ready. seconds: by the clock. processor: of all its processes together."""

    seconds: float
    processor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one pass, medians in milliseconds of processor time. added: of the differences between a routed pass and the
    dense one before it."""

    name: str
    dense: float
    routed: float
    added: float


def launches(model: str) -> Mapping[str, Launch]:
    """SGLang alone, and with the plugin in each mode; as users start it, with every model class imported."""

    def launch(config: EngineConfig | None) -> Launch:
        way: Way = "alone" if config is None else "launch"
        return Launch(model=model, arguments=ARGUMENTS, config=config, way=way, lean=False)

    def config(mode: Any) -> EngineConfig:
        return EngineConfig(policy=POLICY, settings=SETTINGS, mode=mode)

    return {"SGLang alone": launch(None), "dense": launch(config("dense")), "routed": launch(config("routed"))}


def starts(model: str, times: int) -> dict[str, list[Start]]:
    """Of each server, `times` starts."""
    found: dict[str, list[Start]] = {name: [] for name in launches(model)}
    with TemporaryDirectory(prefix="vskipper-measure-") as folder:
        for number in range(times):
            for name, launch in launches(model).items():
                with running(launch, Path(folder) / f"{name}-{number}.log") as server:
                    found[name].append(Start(seconds=server.seconds, processor=_processor(server.process.pid)))
    return found


def _processor(pid: int) -> float:
    """Seconds of a process and its family, of those that have ended too."""
    times = [each.cpu_times() for each in family_of(pid)]
    return sum(float(each.user + each.system + each.children_user + each.children_system) for each in times)


def passes() -> dict[str, StepPlan]:
    """Decode passes of one and of eight requests at position PROMPT, and a prompt."""
    return {
        "decode, 1 request": _plan(1, (PROMPT,), "decode"),
        "decode, 8 requests": _plan(8, (PROMPT,), "decode"),
        f"prefill, {PROMPT} tokens": _plan(1, range(PROMPT), "prefill"),
    }


def cost(engine: Engine, subject: Subject, name: str, plan: StepPlan, times: int) -> Cost:
    """Dense and routed by turns, so that both see the machine in one state."""
    model = subject.model
    pool = new_pool(engine.pool, PoolLayout(page_size=1, pages=2 + 8 * (PROMPT + 1)))
    engine.vskipper.policy = CheckedPolicy(subject.make_policy(model.dtype), POLICY)
    states = [
        new_state(RequestPlan(prefill=RequestMode.ROUTED, decode=RequestMode.ROUTED), chunk.request, PROMPT)
        for chunk in plan.chunks
    ]

    def dense() -> None:
        engine.run(plan, pool)

    def routed() -> None:
        _routed(engine, plan, pool, states)

    pairs = [(_milliseconds(dense), _milliseconds(routed)) for _ in range(WARM_UP + times)][WARM_UP:]
    return Cost(
        name=name,
        dense=median(before for before, _ in pairs),
        routed=median(after for _, after in pairs),
        added=median(after - before for before, after in pairs),
    )


def _routed(engine: Engine, plan: StepPlan, pool: Any, states: list[RequestState]) -> None:
    """As the scheduler's seams run a batch, but for the metrics."""
    source = BatchPass(states, _failed, _uncovered)
    with published(source):
        engine.run(plan, pool)
    (evidence,) = source.evidence
    evidence.count()


def _failed(number: int, error: PolicyError) -> None:
    raise error


def _uncovered(number: int, position: int) -> None:
    raise RuntimeError(f"request {number} ran dense at position {position}")


def _milliseconds(call: Callable[[], None]) -> float:
    begun = time.process_time()
    call()
    return 1000 * (time.process_time() - begun)


def _plan(requests: int, positions: Any, phase: Any) -> StepPlan:
    chunks = (
        Chunk(
            request=f"r{number}",
            tokens=tuple(1 + position % 100 for position in positions),
            start=positions[0],
            pages=tuple(range(1 + number * (PROMPT + 1), 1 + (number + 1) * (PROMPT + 1))),
            phase=phase,
        )
        for number in range(requests)
    )
    return StepPlan(chunks=tuple(chunks))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", help="for the passes; default tiny-llama and smollm2")
    parser.add_argument("--starts", type=int, default=3, help="of each server; 0 leaves them out")
    parser.add_argument("--passes", type=int, default=50, help="of each kind")
    given = parser.parse_args()
    if given.starts:
        print("| server | seconds until ready, median | of processor time | least to most |\n|---|---|---|---|")
        for name, every in starts("tiny-llama", given.starts).items():
            seconds, processor = [each.seconds for each in every], [each.processor for each in every]
            spread = f"{min(processor):.1f} to {max(processor):.1f}"
            print(f"| {name} | {median(seconds):.1f} | {median(processor):.1f} | {spread} |")
        print()
    print("| model | pass | dense, ms | routed, ms | added, ms | added a routed layer, us |\n|---|---|---|---|---|---|")
    for model in given.model or ("tiny-llama", "smollm2"):
        subject = build_subject(SubjectSpec(runtime="sglang", model=model, policy=POLICY, settings=SETTINGS))
        layers = len(subject.model.routed_layers)
        for name, plan in passes().items():
            found = cost(open_engine(subject.model), subject, name, plan, given.passes)
            times = f"{found.dense:.2f} | {found.routed:.2f} | {found.added:.2f} | {1000 * found.added / layers:.0f}"
            print(f"| {model}, {layers} routed layers | {name} | {times} |", flush=True)


if __name__ == "__main__":
    main()
