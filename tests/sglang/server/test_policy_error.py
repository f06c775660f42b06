"""A policy that breaks down takes its own request with it, and nothing else: neither those beside it nor their KV."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.messages import Answer, Refused, Request
from conformance.runtimes.sglang.server.process import Server
from properties.lifecycle.case import Rules
from tests.sglang.server.judge import Judge
from tests.sglang.server.load import ARGUMENTS, VARIABLES, Load, ask, requests, tokens
from vskipper.policy import PolicyCapabilities
from vskipper.sglang.request import RequestMode, choose_plan

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server-policy-error")]

POLICIES = Path(__file__).parent / "policies"
# keyed by request id: nothing that is routed may be shared
JUDGE = Judge(model="tiny-qwen3", rules=Rules(eighths=4, thirds=2, by_token=False, mode=1, seed=5))
POSITION = 20
LINE = 1 + (POLICIES / "fragile.py").read_text().splitlines().index(
    '            raise LookupError("no route for this row")'
)


def routed_name(label: str) -> str:
    """An id whose request is routed in both phases."""
    able = PolicyCapabilities(tolerates_dense_prefix=True)
    names = (f"{label}-{number}" for number in count())
    plans = ((name, choose_plan("by-request", able, name, JUDGE.config.seed)) for name in names)
    return next(name for name, plan in plans if (plan.prefill, plan.decode) == (RequestMode.ROUTED,) * 2)


# broken in the second chunk of its prompt, in decode passes, and in a stream
PREFILLS, DECODES, MUTES, SPARSE, STREAMS = map(routed_name, ("prefills", "decodes", "mutes", "sparse", "streams"))
WAYS = {PREFILLS: "raises", DECODES: "raises", STREAMS: "raises", MUTES: "mute", SPARSE: "sparse"}
BROKEN = {
    PREFILLS: Request(tokens=tokens(random.Random(1), 40), outputs=8, name=PREFILLS),
    DECODES: Request(tokens=tokens(random.Random(2), 10), outputs=20, name=DECODES),
    MUTES: Request(tokens=tokens(random.Random(3), 10), outputs=20, name=MUTES),
    SPARSE: Request(tokens=tokens(random.Random(4), 10), outputs=20, name=SPARSE),
}
SAID = {
    "raises": rf"hook route\b.*fragile\.py:{LINE}\b.*no route for this row",
    "mute": r"hook route\b.*fragile\.py:\d+.*got Mute: a message that raises ArithmeticError",
    "sparse": r"hook route: layer \d+, actions .*fragile\.py:\d+.*got layout torch.sparse_coo",
}


@pytest.fixture(scope="module")
def server(start: Callable[[Launch], Server]) -> Server:
    settings = {**JUDGE.config.settings, "broken": WAYS, "position": POSITION}
    config = replace(JUDGE.config, policy="fragile:Fragile", settings=settings)
    path = (str(POLICIES),)
    return start(Launch(model=JUDGE.model, arguments=ARGUMENTS, variables=VARIABLES, config=config, path=path))


@pytest.fixture(scope="module")
def load(server: Server) -> Load:
    """All at once, the broken ones among them."""
    asked = requests(3, "beside")
    for place, request in zip((30, 60, 90, 120), BROKEN.values(), strict=True):
        asked.insert(place, request)
    return ask(server, asked)


def sound(load: Load) -> list[tuple[Request, Answer]]:
    """The others."""
    return [(request, answer) for request, answer in load.pairs if request.name not in BROKEN]


def check_told(name: str, message: str) -> None:
    """Policy, hook and line."""
    assert re.search(f"policy fragile:Fragile, {SAID[WAYS[name]]}", message), message


def test_it_is_told_which_policy_failed_in_which_hook_and_line(load: Load) -> None:
    assert set(load.refused) == set(BROKEN)
    for name, error in load.refused.items():
        assert name is not None and error.status == 500
        check_told(name, error.message)


def test_the_requests_beside_it_are_unharmed(load: Load) -> None:
    assert len(sound(load)) == len(load.asked) - len(BROKEN)
    assert not [request for request, answer in sound(load) if JUDGE.verdict(request, answer).wrong]
    assert sum(answer.retractions for _, answer in sound(load)) >= 10


def test_routed_requests_share_nothing_where_routes_follow_from_the_id(load: Load) -> None:
    hits = {"dense": 0, "routed": 0}
    for _, answer in sound(load):
        if answer.summary is not None and not answer.retractions:
            hits[answer.summary.prefill] += answer.cached > 0
    assert hits["routed"] == 0 and hits["dense"] >= 10


def test_skipped_shares_are_the_tapes(load: Load) -> None:
    JUDGE.check_shares(sound(load))


def test_it_is_counted(load: Load) -> None:
    assert load.grown("vskipper:failed_requests_total") == len(BROKEN)


def test_a_stream_ends_with_the_error(server: Server, load: Load) -> None:
    request = replace(BROKEN[DECODES], name=STREAMS)
    with pytest.raises(Refused) as told:
        server.client.stream(request)
    assert told.value.status == 500
    check_told(STREAMS, told.value.message)


@pytest.mark.parametrize("flushed", [False, True])
def test_the_pool_is_whole_afterwards(server: Server, load: Load, flushed: bool) -> None:
    JUDGE.check_pool(server, flushed=flushed)
