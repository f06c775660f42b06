"""RandomSkip against a second implementation in numpy's unsigned arithmetic, and its promises."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.policies.batches import LAYERS, batch, context, stream
from vskipper.errors import InputError
from vskipper.policies.random_skip import RandomSkip

RUN, PROJECT_ONLY = 3, 0
U64 = np.uint64


def selected(data: list[bytes], positions: list[int], seed: int, r: float) -> list[bool]:
    """docs/contract.md, from the bytes of each row's id; unsigned, so that no shift keeps a sign."""
    keys = np.array([int.from_bytes(hashlib.blake2b(d, digest_size=8).digest(), "little") for d in data], dtype=U64)
    with np.errstate(over="ignore"):
        x = keys + U64(seed) * U64(0x9E3779B97F4A7C15) + np.array(positions, dtype=U64) * U64(0xD1B54A32D192ED03)
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        x = x ^ (x >> U64(31))
    return [int(value) >> 32 < math.floor(r * 2**32) for value in x]


def actions(policy: RandomSkip, requests: list[str], positions: list[int], tokens: list[int]) -> list[list[int]]:
    state = policy.begin(batch(requests, positions, tokens))
    x = stream(len(requests))
    return [policy.route(layer, x, state).actions.tolist() for layer in LAYERS]


rows_drawn = st.lists(
    st.tuples(st.text(max_size=4), st.integers(0, 2**20), st.integers(0, 127)), min_size=1, max_size=12
)


@given(rows=rows_drawn, seed=st.integers(0, 2**63 - 1), r=st.floats(0, 1), d=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
@pytest.mark.parametrize("key", ["request", "token"])
def test_equals_the_second_implementation(
    key: Any, rows: list[tuple[str, int, int]], seed: int, r: float, d: float
) -> None:
    requests, positions, tokens = (list(column) for column in zip(*rows, strict=True))
    ids = [text.encode() for text in requests] if key == "request" else [t.to_bytes(8, "little") for t in tokens]
    chosen = selected(ids, positions, seed, r)
    upper = len(LAYERS) - math.ceil(d * len(LAYERS))
    expected = [[PROJECT_ONLY if s and i >= upper else RUN for s in chosen] for i in range(len(LAYERS))]
    assert actions(RandomSkip(context(), r=r, d=d, seed=seed, key=key), requests, positions, tokens) == expected


@pytest.mark.parametrize("r", [0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("key", ["request", "token"])
def test_share_is_binomial(key: Any, r: float) -> None:
    rows = 40_000
    requests, positions, tokens = ["a"] * rows, list(range(rows)), [position % 128 for position in range(rows)]
    skips = actions(RandomSkip(context(), r=r, d=0.5, seed=7, key=key), requests, positions, tokens)[-1].count(0)
    assert abs(skips - r * rows) <= 5 * math.sqrt(rows * r * (1 - r))


def test_neighbouring_seeds_and_requests_route_apart() -> None:
    rows = 20_000
    positions = list(range(rows))

    def skips(request: str, seed: int) -> list[int]:
        policy = RandomSkip(context(), r=0.5, d=1.0, seed=seed)
        return actions(policy, [request] * rows, positions, [0] * rows)[0]

    one = skips("a", 7)
    for other in (skips("a", 8), skips("b", 7)):
        # independent halves agree on half of the rows: 10,000 +- 5 standard deviations of 70.7
        assert abs(sum(a == b for a, b in zip(one, other, strict=True)) - rows // 2) < 354


def test_depends_on_no_neighbour_and_no_order() -> None:
    requests, positions = [f"r{i % 5}" for i in range(64)], list(range(64))
    policy = RandomSkip(context(), r=0.5, seed=3)
    whole = actions(policy, requests, positions, [0] * 64)[-1]
    assert [actions(policy, [requests[i]], [positions[i]], [0])[-1][0] for i in range(64)] == whole
    assert actions(policy, requests[::-1], positions[::-1], [0] * 64)[-1] == whole[::-1]


def test_equal_prefixes_route_alike_by_token_only() -> None:
    tokens, positions = list(range(100)), list(range(100))
    for key, alike in (("token", True), ("request", False)):
        policy = RandomSkip(context(), r=0.5, key=key)  # type: ignore[arg-type]
        assert policy.capabilities.prefix_determined is alike
        two = [actions(policy, [name] * 100, positions, tokens) for name in ("a", "b")]
        assert (two[0] == two[1]) is alike


def test_a_padding_rows_token_may_be_anything() -> None:
    policy = RandomSkip(context(), key="token")
    assert len(actions(policy, ["a", "a"], [0, 0], [-1, 2**40])[0]) == 2


def test_token_key_needs_the_vocabulary() -> None:
    with pytest.raises(InputError, match="vocab_size"):
        RandomSkip(context(vocab_size=0), key="token")


@pytest.mark.parametrize(
    "setting",
    [
        {"r": -0.1},
        {"r": 1.001},
        {"r": float("nan")},
        {"d": 2},
        {"d": "half"},
        {"seed": -1},
        {"seed": 2**63},
        {"seed": 0.5},
        {"key": "row"},
        {"projector": "identity"},
        {"r": True},
    ],
)
def test_settings_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        RandomSkip(context(), **setting)
    assert f"policy random-skip, setting {next(iter(setting))}" in caught.value.where


def test_zero_projector_and_no_routed_layers() -> None:
    policy = RandomSkip(context())
    y = stream(3)
    assert not policy.project(2, y, policy.begin(batch(["a"] * 3, range(3)))).any()
    assert not policy.capabilities.needs_projector
    assert not hasattr(policy, "swiglu")
    RandomSkip(context(routed_layers=()))


def test_route_tensors_are_as_the_contract_says() -> None:
    policy = RandomSkip(context())
    route = policy.route(7, stream(3), policy.begin(batch(["a"] * 3, range(3))))
    assert (route.actions.dtype, route.actions.shape, route.weights) == (torch.uint8, (3,), None)
