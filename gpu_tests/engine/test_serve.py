"""`vskipper serve` on this GPU: requests are decoded together from routed graphs, and each answer states what its own
rows did."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.runtimes.sglang.seat import GRAPH_SIZES, MEMORY
from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.messages import Answer, Request
from conformance.runtimes.sglang.server.process import Server, running
from gpu_tests.engine.places import PLACES, Place
from properties.lifecycle.case import NAME, Rules
from properties.lifecycle.routes import Modes, expected_routes
from reference.action import PROJECT_ONLY
from vskipper.models.seeded import ROUTED_LAYERS
from vskipper.sglang.config import EngineConfig

RULES = Rules(eighths=4, thirds=2, mode=0)
LAYERS = len(ROUTED_LAYERS)
ROUTED = ("routed", "routed")
# twice as many as run at once
REQUESTS = tuple(
    Request(tokens=tuple(range(number, number + 20)), outputs=12 + number, name=f"of-{number}") for number in range(16)
)
# one server a backend: a start takes half a minute
SERVED = [
    pytest.param(place, id=place.name, marks=pytest.mark.xdist_group(place.name))
    for place in PLACES
    if place.dtype == "bfloat16"
]


def launch(place: Place) -> Launch:
    served = RULES.served()
    return Launch(
        model=place.model,
        config=EngineConfig(policy=NAME, settings=served.settings, mode="routed", seed=served.seed),
        device=("--device", "cuda", "--dtype", place.dtype, "--attention-backend", place.backend),
        arguments=(
            *("--max-total-tokens", "2048"),
            # no graph is larger: the engine captures 1, 2, 4 and 8
            *("--max-running-requests", str(max(GRAPH_SIZES))),
            *("--chunked-prefill-size", "64"),
            *("--mem-fraction-static", str(MEMORY)),
            "--enable-metrics",
        ),
    )


def stated(request: Request, answer: Answer) -> tuple[tuple[str, str], float | None]:
    assert answer.summary is not None and answer.finish == "length" and len(answer.tokens) == request.outputs
    return answer.summary.plan, answer.summary.decode_share


def expected(request: Request, answer: Answer) -> tuple[tuple[str, str], float]:
    """By the policy's closed form; the last token's row decides nothing."""
    assert request.name is not None
    prompt = len(request.tokens)
    given = (*request.tokens, *answer.tokens)[:-1]
    routes = expected_routes(RULES, LAYERS, request.name, given, Modes(plan=ROUTED, prompt=prompt))[prompt:]
    skipped = sum(codes.count(PROJECT_ONLY) for codes in routes if codes is not None)
    return ROUTED, skipped / (len(routes) * LAYERS)


def check(server: Server) -> None:
    told = server.client.generate_all(REQUESTS, at_once=len(REQUESTS))
    answers = [(request, answer) for request, answer in zip(REQUESTS, told, strict=True) if isinstance(answer, Answer)]
    assert len(answers) == len(REQUESTS), told
    assert [stated(*each) for each in answers] == [expected(*each) for each in answers]
    (state,) = server.client.info()["internal_states"]
    graphs = state["vskipper"]["graphs"]
    assert max(GRAPH_SIZES) in graphs["routed"] and not graphs["left_out"]
    passes = server.client.metrics()
    assert passes.total("vskipper:passes_total", mode="routed") > 0
    assert passes.total("vskipper:passes_total", mode="uncovered") == 0


@pytest.mark.parametrize("place", SERVED)
def test_answers_state_what_their_rows_did(place: Place, tmp_path: Path) -> None:
    place.require()
    with running(launch(place), tmp_path / "log") as server:
        check(server)
