"""Two hundred requests through one server, each in a mode of its own: every one is served as if it were alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest

from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.messages import Answer, Summary
from conformance.runtimes.sglang.server.process import Server
from properties.lifecycle.case import Rules
from tests.sglang.server.judge import Judge, Tape, other
from tests.sglang.server.load import ARGUMENTS, CHUNK, END, VARIABLES, Load, ask, requests

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server-by-request")]

# keyed by token, so that routed requests may share prefixes too
JUDGE = Judge(model="tiny-llama", rules=Rules(eighths=4, thirds=2, by_token=True, mode=1, seed=3))
MODES = ("dense", "routed")
ACTIONS = ("RUN", "PROJECT_ONLY", "SKIP_ATTN", "SKIP_MLP")
# a share of tokens
FEW = 0.005


@pytest.fixture(scope="module")
def server(start: Callable[[Launch], Server]) -> Server:
    return start(Launch(model=JUDGE.model, arguments=ARGUMENTS, variables=VARIABLES, config=JUDGE.config))


@pytest.fixture(scope="module")
def load(server: Server) -> Load:
    """All at once, as the pool allows."""
    found = ask(server, requests(1, "load"))
    assert not found.refused
    return found


@pytest.fixture(scope="module")
def quiet(server: Server, load: Load) -> Load:
    """One after the other, with an empty cache at first: nothing is taken off, and no pass has rows of two."""
    server.client.flush_cache()
    found = ask(server, requests(2, "quiet")[:24], at_once=1)
    assert not found.refused and not any(answer.retractions for _, answer in found.pairs)
    return found


def summary(answer: Answer) -> Summary:
    assert answer.summary is not None
    return answer.summary


def tapes(load: Load, beyond: int = 0) -> list[Tape]:
    """Of the requests that were never taken off."""
    return [JUDGE.tape(request, answer, beyond) for request, answer in load.pairs if not answer.retractions]


def test_tokens_are_those_of_the_request_alone(load: Load) -> None:
    verdicts = [(request, JUDGE.verdict(request, answer)) for request, answer in load.pairs]
    assert not [(request, verdict) for request, verdict in verdicts if verdict.wrong]
    for request, answer in load.pairs:
        ended = answer.tokens.index(END) + 1 if END in answer.tokens else request.outputs
        assert len(answer.tokens) == ended, request
    ties = sum(len(verdict.ties) for _, verdict in verdicts)
    said = sum(len(answer.tokens) for _, answer in load.pairs)
    print(f"{said} tokens of {len(verdicts)} requests, {ties} of them ties in float32")
    assert ties <= FEW * said


def test_another_plan_would_have_been_seen(load: Load) -> None:
    """The comparison above can tell plans apart."""
    pairs = load.pairs[:40]
    seen = [JUDGE.verdict(request, answer, other(summary(answer).plan)).wrong for request, answer in pairs]
    assert sum(map(bool, seen)) > 0.8 * len(pairs)


def test_every_plan_occurred_and_was_taken_off(load: Load) -> None:
    plans = Counter(summary(answer).plan for _, answer in load.pairs)
    taken = Counter(summary(answer).plan for _, answer in load.pairs if answer.retractions)
    print(f"requests by plan: {plans}; taken off: {taken}")
    assert set(plans) == set(taken) == set(product(MODES, MODES))


@pytest.mark.parametrize("mode", MODES)
def test_prefixes_were_shared(load: Load, mode: str) -> None:
    steady = [answer for _, answer in load.pairs if not answer.retractions and summary(answer).prefill == mode]
    hits = sum(answer.cached > 0 for answer in steady)
    print(f"{hits} hits among {len(steady)} requests of a {mode} prefill")
    assert hits >= 10


def test_skipped_shares_are_the_tapes(load: Load) -> None:
    JUDGE.check_shares(load.pairs)


def test_the_mean_share_is_r_times_d(load: Load) -> None:
    found = tapes(load)
    skipped = sum(sum(layers) for tape in found for layers in tape.skipped)
    pairs = sum(sum(tape.rows) for tape in found) * len(JUDGE.routed_layers)
    r, depth = JUDGE.rules.eighths / 8, JUDGE.rules.thirds / 3
    draws = len(frozenset().union(*(tape.draws for tape in found)))
    # four standard deviations of as many draws as there were of a kind
    assert abs(skipped / pairs - r * depth) < 4 * depth * math.sqrt(r * (1 - r) / draws)


def test_metrics_count_passes(quiet: Load) -> None:
    """One request a pass: its chunks, then a pass for every token but the first."""
    counted = Counter({mode: quiet.grown("vskipper:passes_total", mode=mode) for mode in MODES})
    expected = [Counter[str](), Counter[str]()]
    for request, answer in quiet.pairs:
        chunks = math.ceil((len(request.tokens) - answer.cached) / CHUNK)
        for beyond, passes in enumerate(expected):
            passes.update({summary(answer).prefill: chunks})
            passes.update({summary(answer).decode: len(answer.tokens) - 1 + beyond})
    assert all(set(passes) == set(MODES) for passes in expected)
    assert counted in expected


def test_metrics_count_rows_by_layer_and_action(quiet: Load) -> None:
    counted = [
        Counter({action: quiet.grown("vskipper:rows_total", layer=str(layer), action=action) for action in ACTIONS})
        for layer in JUDGE.routed_layers
    ]
    expected = [
        [
            sum((tape.counts(layer) for tape in tapes(quiet, beyond)), Counter[str]())
            for layer in range(len(JUDGE.routed_layers))
        ]
        for beyond in (0, 1)
    ]
    assert counted in expected
    assert quiet.grown("vskipper:rows_total") == sum(sum(layer.values()) for layer in counted) > 0


def test_metrics_count_promotions(load: Load, quiet: Load) -> None:
    for run in (load, quiet):
        # whether a request of one token has decode rows is the overlapping engine's choice
        least, most = (
            [summary(answer).plan for _, answer in run.pairs if len(answer.tokens) > short].count(("dense", "routed"))
            for short in (1, 0)
        )
        assert 0 < least <= run.grown("vskipper:promotions_total") <= most
        assert run.grown("vskipper:failed_requests_total") == 0


def test_metrics_carry_the_models_name(quiet: Load) -> None:
    own = {sample.labels["model_name"] for sample in quiet.after.every if sample.name.startswith("vskipper:")}
    engines = {sample.labels["model_name"] for sample in quiet.after.of("sglang:num_requests_total")}
    assert own == engines and len(own) == 1


def test_server_info_carries_the_configuration(server: Server) -> None:
    (state,) = server.client.info()["internal_states"]
    told, asked = state["vskipper"], JUDGE.config
    assert told["config"]["policy"] == asked.policy
    assert told["config"]["settings"] == dict(asked.settings)
    assert (told["config"]["mode"], told["config"]["seed"]) == ("by-request", asked.seed)
    assert tuple(told["routed_layers"]) == JUDGE.routed_layers
    assert len(bytes.fromhex(told["namespace"])) == 16


def test_the_last_chunk_of_a_stream_carries_the_summary(server: Server, quiet: Load) -> None:
    for request, answer in quiet.pairs[:6]:
        *earlier, last = server.client.stream(request)
        assert len(earlier) >= 1 and all(chunk.summary is None for chunk in earlier)
        assert (last.tokens, last.finish) == (answer.tokens, answer.finish)
        assert summary(last).plan == summary(answer).plan
        tape = JUDGE.tape(request, last)
        assert (summary(last).prefill_share, summary(last).decode_share) == (tape.share(0), tape.share(1))


@pytest.mark.parametrize("flushed", [False, True])
def test_the_pool_is_whole_afterwards(server: Server, load: Load, flushed: bool) -> None:
    JUDGE.check_pool(server, flushed=flushed)
