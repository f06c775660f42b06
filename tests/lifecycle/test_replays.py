"""On an engine that captures graphs, a routed decode batch is replayed; elsewhere nothing is asked."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.faults.lifecycle.decode_graphs import FAULTS
from conformance.runtimes.sglang.scheduler.engine import SchedulerEngine
from conformance.runtimes.sglang.seat import CPU_SEAT, LIFE_SIZES, Seat
from conformance.runtimes.sglang.server.engine import ServerEngine
from conformance.subjects import SubjectSpec, build_subject
from properties.lifecycle.case import Arrival, LifeCase, Rules
from properties.lifecycle.engine import History, Pass, Row, Shape
from properties.lifecycle.life_alone import LIFE_ALONE, check_replayed
from properties.lifecycle.play import play
from properties.lifecycle.seen import counts
from properties.violation import Violation
from tests.engine import needs_sglang
from vskipper.sglang.passes import published
from vskipper.sglang.seams import decode_runner
from vskipper.sglang.seams.wrap import unwrap_all

ROUTED = {"actions": ((0,), (3,)), "owners": ()}
COUNTER = "routed_replays"


def ran(**what: Any) -> Pass:
    return Pass(iteration=1, rows=(Row(request="a", position=4, slot=5),), **what)


def test_a_routed_decode_batch_that_was_not_replayed_is_a_violation() -> None:
    served = (ran(decode=True, replayed=True, **ROUTED), ran(decode=True), ran(**ROUTED), ran())
    check_replayed(served)
    with pytest.raises(Violation) as caught:
        check_replayed((*served, ran(decode=True, **ROUTED)))
    assert (caught.value.reason, caught.value.facts["step"]) == ("decode_ran_eagerly", 4)


def test_only_a_routed_replay_is_counted() -> None:
    passes = (ran(replayed=True, **ROUTED), ran(replayed=True), ran(**ROUTED))
    request: Any = SimpleNamespace(prompt=(1,), finish=None, plans=())
    assert counts(History(passes=passes, requests={"a": request}, accounts=()))[COUNTER] == 1


@pytest.mark.parametrize(
    ("engine", "captures"),
    [
        (SchedulerEngine(seat=Seat(device="cuda", graphs=LIFE_SIZES)), True),
        (SchedulerEngine(seat=CPU_SEAT), False),
        (ServerEngine(), False),
    ],
)
def test_routed_replays_are_asked_of_an_engine_that_captures(engine: Any, captures: bool) -> None:
    subject: Any = SimpleNamespace(runtime=SimpleNamespace(lifecycle=engine))
    assert engine.captures == captures == (COUNTER in LIFE_ALONE.demanded(subject))


class Runner:
    """Stands for the engine's, which has a graph for every batch."""

    def can_run_graph(self, forward_batch: Any) -> bool:
        return True


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(decode_runner, "replaying_method", lambda: (Runner, "execute"))
    yield Runner()
    unwrap_all()


def test_the_fault_takes_the_graph_from_routed_batches_alone(runner: Runner) -> None:
    (fault,) = FAULTS
    decoder = fault.patch(lambda model: SimpleNamespace(graphs=object()))(None)
    assert decoder.graphs is None
    source: Any = SimpleNamespace(is_routed=lambda batch: batch)
    with published(source):
        assert [runner.can_run_graph(routed) for routed in (False, True)] == [True, False]
    assert runner.can_run_graph(True)


@needs_sglang
def test_decode_batches_are_told_apart_and_a_cpu_replays_none() -> None:
    shape = Shape(page_size=1, chunk=8, tokens=64, running=2, overlap=True, mixed=False)
    arrivals = tuple(Arrival(at=0, prefix=0, shared=0, own=9, outputs=3) for _ in range(2))
    subject = build_subject(SubjectSpec(runtime="sglang", model="tiny-llama"))
    history = play(subject, LifeCase(shape=shape, rules=Rules(eighths=8, thirds=3), arrivals=arrivals))
    for each in history.passes:
        assert each.decode == all(row.position >= len(history.requests[row.request].prompt) for row in each.rows)
    assert any(each.decode for each in history.passes) and not counts(history)[COUNTER]
