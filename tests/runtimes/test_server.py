"""The runtime `server`: a real server holds the properties, what users are told is judged, and it is left as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch

from conformance.runtimes.sglang.server import attended
from conformance.runtimes.sglang.server.client import Client
from conformance.runtimes.sglang.server.engine import arguments
from conformance.runtimes.sglang.server.family import runs
from conformance.runtimes.sglang.server.messages import Answer, Request
from conformance.runtimes.sglang.server.runtime import ARGUMENTS
from conformance.subjects import SubjectSpec, build_subject
from properties.lifecycle.case import Arrival, Departure, LifeCase, Rules
from properties.lifecycle.engine import FINISHED, engine_of
from properties.lifecycle.life_alone import LIFE_ALONE
from properties.lifecycle.mode_dense import MODE_DENSE
from properties.lifecycle.play import play
from properties.property import Subject
from properties.registry import by_id
from properties.run import run_property, violation_of
from reference.plan import Chunk, PoolLayout, StepPlan
from tests.engine import absent
from vskipper.errors import InputError

pytestmark = [
    pytest.mark.server,
    absent,
    pytest.mark.xdist_group("server"),
]
CORE = ("kv.footprint", "sem.outputs", "sem.all_run_is_dense", "map.layout", "work.counts")
LIFE = ("life.alone", "life.slots")


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    """None is left once the module's tests are done."""
    yield
    attended.stop_all()


def subject_of() -> Subject:
    return build_subject(SubjectSpec(runtime="server", model="tiny-llama"))


def asked_of(subject: Subject) -> attended.Asked:
    return attended.Asked.of(subject.model, ARGUMENTS)


def life_case(subject: Subject, shape: int) -> LifeCase:
    """Requests of common beginnings, one of which is given up, twice."""
    return LifeCase(
        shape=(engine_of(subject).shapes or ())[shape],
        rules=Rules(by_token=True),
        arrivals=tuple(
            Arrival(at=3 * number, prefix=0, shared=17, own=1 + number, outputs=6, user=number % 2)
            for number in range(5)
        ),
        departures=(Departure(request=3, at=11), Departure(request=3, at=12)),
        seed=5,
    )


@pytest.mark.parametrize("rule", CORE)
def test_core_properties_hold_on_the_servers_own_runner(rule: str) -> None:
    outcome = run_property(by_id(rule), subject_of(), examples=3, seed=1)
    assert outcome.status == "passed", outcome


def test_a_plan_that_the_engine_refuses_is_refused_here_in_its_words() -> None:
    subject = subject_of()
    policy = subject.make_policy(torch.float32)
    session = subject.runtime.open(subject.model, policy, PoolLayout(page_size=1, pages=4), "routed")
    with pytest.raises(InputError, match=r"zero rows \[step plan\]"):
        session.step(StepPlan(chunks=()))
    session.close()


def test_a_policy_that_cannot_reach_the_server_is_refused() -> None:
    subject = subject_of()
    with pytest.raises(InputError, match=r"policy \[runtime server\]"):
        subject.runtime.open(subject.model, lambda: None, PoolLayout(page_size=1, pages=4), "routed")


@pytest.mark.parametrize("kv_dtype", [None, "bfloat16", "float8_e4m3fn"])
def test_the_suite_reads_and_writes_the_servers_own_bytes(kv_dtype: str | None) -> None:
    subject = subject_of()
    layout = PoolLayout(page_size=16, pages=3, kv_dtype=kv_dtype)
    chunk = Chunk(request="a", tokens=(5,), start=1, pages=(2,), phase="decode")

    def logits(value: float) -> torch.Tensor:
        session = subject.runtime.open(subject.model, subject.make_policy(torch.float32), layout, "dense")
        for pair in session.kv:
            for part in pair:
                part[32] = torch.full_like(part[32], value)
        found = session.step(StepPlan(chunks=(chunk,))).logits
        assert all(bool(part[33].float().any()) for pair in session.kv for part in pair)
        assert all(part[32].float().eq(value).all() for pair in session.kv for part in pair)
        session.close()
        return found

    assert not logits(0.5).equal(logits(2.0))
    assert logits(0.5).equal(logits(0.5))


@pytest.mark.parametrize("rule", LIFE)
def test_lifecycle_properties_hold_over_http(rule: str) -> None:
    outcome = run_property(by_id(rule), subject_of(), examples=3, seed=1)
    assert outcome.status == "passed", outcome


def test_what_users_are_told_is_what_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of()
    case = life_case(subject, 0)
    assert violation_of(LIFE_ALONE, subject, case) is None
    original = Client.generate

    def misheard(client: Client, request: Request) -> Answer:
        answer = original(client, request)
        return replace(answer, tokens=(*answer.tokens[:-1], answer.tokens[-1] ^ 1))

    monkeypatch.setattr(Client, "generate", misheard)
    found = violation_of(LIFE_ALONE, subject, case)
    assert found is not None and found[0].reason == "wrong_token", found


def test_whoever_leaves_leaves_once_and_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of()
    left: list[str] = []
    original = Client.abort

    def leave(client: Client, name: str) -> None:
        left.append(name)
        original(client, name)

    monkeypatch.setattr(Client, "abort", leave)
    case = life_case(subject, 0)
    history = play(subject, case)
    assert left == [case.name(3)]
    assert history.requests[left[0]].finish not in FINISHED
    assert all(ran.finish in FINISHED for name, ran in history.requests.items() if name not in left)


def test_an_answer_that_never_comes_costs_the_server_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of()
    case = life_case(subject, 0)
    asked = attended.Asked.of(subject.model, arguments(case.shape))
    attended.attended(asked)

    def broken(client: Client, request: Request) -> Answer:
        raise ConnectionError("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(Client, "generate", broken)
        found = violation_of(LIFE_ALONE, subject, case)
    assert found is not None and "cut off" in found[1], found
    assert asked not in attended.running_now()


def test_the_stock_engine_and_dense_mode_say_the_same() -> None:
    subject = subject_of()
    assert violation_of(MODE_DENSE, subject, life_case(subject, 1)) is None
    assert subject.seen["compared"] > 0 and subject.seen["logprobs"] > 0


def test_a_server_that_is_let_go_serves_as_it_was_started_and_ends_without_a_trace() -> None:
    asked = asked_of(subject_of())
    server = attended.attended(asked)
    family = import_module("psutil").Process(server.server.process.pid).children(recursive=True)
    server.link.close()
    answer = server.server.client.generate(Request(tokens=(1, 2, 3), outputs=4))
    assert len(answer.tokens) == 4
    # the policy that it was started with, every layer of which runs
    assert answer.meta["vskipper"] == [
        {"prefill": "routed", "decode": "routed", "skipped_share": {"prefill": 0.0, "decode": 0.0}}
    ]
    attended.forget(asked)
    assert not [process for process in family if runs(process)]
    assert not server.folder.exists()


KILLED = """
import time
from conformance.runtimes.sglang.server import attended
from conformance.runtimes.sglang.server.runtime import ARGUMENTS
from conformance.subjects import open_model
server = attended.attended(attended.Asked.of(open_model("tiny-llama", None)[0], ARGUMENTS))
print(server.server.process.pid, flush=True)
time.sleep(600)
"""


def test_a_suite_that_is_killed_leaves_no_server(tmp_path: Path) -> None:
    psutil = import_module("psutil")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", KILLED], env=environment, stdout=subprocess.PIPE, text=True) as suite:
        assert suite.stdout is not None
        server = psutil.Process(int(suite.stdout.readline()))
        family = [server, *server.children(recursive=True)]
        assert len(family) > 2
        suite.kill()
    _, left = psutil.wait_procs(family, timeout=60)
    assert not left
