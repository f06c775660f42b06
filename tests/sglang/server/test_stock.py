"""A server whose plugin is off, or set to dense, says what SGLang alone says: tokens, their log-probabilities, and no
more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.messages import Answer, Request
from conformance.runtimes.sglang.server.process import running
from tests.sglang.server.load import ARGUMENTS, CHUNK, requests
from vskipper.sglang.config import EngineConfig

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server-stock")]

MODEL = "tiny-llama"
DENSE = EngineConfig(policy="random-skip", settings={"r": 0.5, "d": 0.5}, mode="dense")
LAUNCHES = {
    "alone": Launch(model=MODEL, arguments=ARGUMENTS, config=None, way="alone"),
    "off": Launch(model=MODEL, arguments=ARGUMENTS, config=None, way="launch"),
    "dense": Launch(model=MODEL, arguments=ARGUMENTS, config=DENSE, way="launch"),
}
COUNT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """By one server, to the same requests one after the other. state: of its scheduler."""

    answers: tuple[Answer, ...]
    state: dict[str, Any]
    metrics: frozenset[str]


def asked() -> list[Request]:
    """One at a time, so that both servers run the same batches."""
    return [replace(request, logprobs=True) for request in requests(4, "stock")[:COUNT]]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    found = {}
    for name, launch in LAUNCHES.items():
        with running(launch, tmp_path_factory.mktemp("server") / f"{name}.log") as server:
            answers = tuple(map(server.client.generate, asked()))
            (state,) = server.client.info()["internal_states"]
            found[name] = Said(answers=answers, state=state, metrics=server.client.metrics().names())
    return found


@pytest.mark.parametrize("name", ["off", "dense"])
def test_tokens_and_log_probabilities_are_equal(said: dict[str, Said], name: str) -> None:
    for one, two in zip(said["alone"].answers, said[name].answers, strict=True):
        assert one.tokens == two.tokens
        assert one.logprobs == two.logprobs and len(one.logprobs) == len(one.tokens)
        assert (one.cached, one.finish) == (two.cached, two.finish)


@pytest.mark.parametrize("name", ["off", "dense"])
def test_an_answer_has_no_field_more(said: dict[str, Said], name: str) -> None:
    for one, two in zip(said["alone"].answers, said[name].answers, strict=True):
        assert set(one.meta) == set(two.meta)
        assert "vskipper" not in two.meta


def test_the_plugin_was_where_it_was_meant_to_be(said: dict[str, Said]) -> None:
    assert {name for name, each in said.items() if "vskipper" in each.state} == {"dense"}
    assert said["dense"].state["vskipper"]["config"]["mode"] == "dense"
    assert not any(name.startswith("vskipper:") for name in said["off"].metrics | said["alone"].metrics)


def test_chunks_and_hits_occurred(said: dict[str, Said]) -> None:
    assert sum(len(request.tokens) > CHUNK for request in asked()) >= 5
    assert sum(answer.cached > 0 for answer in said["alone"].answers) >= 5
