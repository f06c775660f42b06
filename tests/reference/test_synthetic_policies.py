"""RandomSkip against values made outside Python and a second implementation; the ceil rules at their edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from reference import random_skip
from reference.action import PROJECT_ONLY, RUN
from reference.static_depth import early_exit, static_depth

# digests by coreutils' `b2sum -l 64` with the bytes reversed, mixed values by a C program with uint64_t
DIGESTS = {
    "request-0": 0xFF2A6C38E8526020,
    "": 0xB4B2797457A0A6E4,
    "a": 0x2F42665B399EF840,
    "größe-7": 0xD2E26C4FE8FF2A5C,
}
TOKEN_DIGESTS = {123: 0xBF7AC84A292C73D2, 49153: 0xDE6E59C08D02E130}
MIXED = {
    ("request-0", 0, 0): 0x19B905F3D54EFA2D,
    ("request-0", 1, 0): 0x7EFF5E48C15F3A2E,
    ("request-0", 17, 7): 0xA23691AECF1A23F2,
    ("request-0", 17, 8): 0x3F19AC125C1AD7B5,
    ("", 123456, 42): 0x12388DD1817F2859,
    ("a", 17, 7): 0xCB535C7E0B3F7276,
    ("a", 123456, 42): 0x814AA9FB61B10823,
    ("größe-7", 17, 8): 0x48406AE268E2BF2A,
}


def mixed_by_numpy(key: int, positions: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """All positions at once; uint64 arrays wrap by themselves."""
    x = np.full_like(positions, key) + np.full_like(positions, seed) * np.uint64(0x9E3779B97F4A7C15)
    x = x + positions * np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ np.right_shift(x, np.uint64(shift))) * np.uint64(factor)
    mixed: npt.NDArray[np.uint64] = x ^ np.right_shift(x, np.uint64(31))
    return mixed


def test_golden_values() -> None:
    assert {request: random_skip.digest(request) for request in DIGESTS} == DIGESTS
    assert {token: random_skip.token_digest(token) for token in TOKEN_DIGESTS} == TOKEN_DIGESTS
    got = {(request, at, seed): random_skip.mix(DIGESTS[request], at, seed) for request, at, seed in MIXED}
    assert got == MIXED


@pytest.mark.parametrize(("request_id", "seed"), [("request-0", 0), ("a", 7), ("größe-7", 2**63)])
def test_second_implementation_agrees(request_id: str, seed: int) -> None:
    key = random_skip.digest(request_id)
    positions = np.arange(2000, dtype=np.uint64)
    mixed = mixed_by_numpy(key, positions, seed)
    assert [random_skip.mix(key, position, seed) for position in range(2000)] == mixed.tolist()
    for rate in (0.0, 0.25, 0.37, 1.0):
        below = (mixed >> np.uint64(32)) < np.uint64(math.floor(Fraction(rate) * 2**32))
        assert [random_skip.selected(key, position, seed, rate) for position in range(2000)] == below.tolist()


@pytest.mark.parametrize(("rate", "depth"), [(0.5, 0.5), (0.1, 1.0), (0.9, 0.25)])
def test_skipped_share_is_rate_times_depth(rate: float, depth: float) -> None:
    """Within five standard deviations of the binomial, over 40 requests of 250 rows at 8 routed layers."""
    layers, rows = 8, 40 * 250
    keys = [random_skip.digest(f"request-{number}") for number in range(40)]
    selections = [random_skip.selected(key, position, 7, rate) for key in keys for position in range(250)]
    actions = [
        random_skip.action(index, layers, is_selected=each, depth=depth)
        for each in selections
        for index in range(layers)
    ]
    share = actions.count(PROJECT_ONLY) / len(actions)
    assert set(actions) == {RUN, PROJECT_ONLY}
    assert abs(share - rate * depth) < 5 * depth * math.sqrt(rate * (1 - rate) / rows)


def test_neighbouring_seeds_select_independently() -> None:
    key = random_skip.digest("request-0")
    alike = sum(
        random_skip.selected(key, position, 7, 0.5) == random_skip.selected(key, position, 8, 0.5)
        for position in range(4000)
    )
    assert abs(alike / 4000 - 0.5) < 5 * math.sqrt(0.25 / 4000)


def test_rate_zero_selects_none_and_rate_one_all() -> None:
    key = random_skip.digest("a")
    assert not any(random_skip.selected(key, position, 0, 0.0) for position in range(500))
    assert all(random_skip.selected(key, position, 0, 1.0) for position in range(500))


@pytest.mark.parametrize(
    ("share", "layers", "skipped"), [(0.0, 5, 0), (0.01, 5, 1), (0.2, 5, 1), (0.21, 5, 2), (0.5, 5, 3), (1.0, 5, 5)]
)
def test_ceil_rule_takes_the_last_layers(share: float, layers: int, skipped: int) -> None:
    expected = [RUN] * (layers - skipped) + [PROJECT_ONLY] * skipped
    assert [static_depth(index, layers, share) for index in range(layers)] == expected
    assert [random_skip.action(index, layers, is_selected=True, depth=share) for index in range(layers)] == expected
    unselected = [random_skip.action(index, layers, is_selected=False, depth=share) for index in range(layers)]
    assert unselected == [RUN] * layers


def test_early_exit_counts_model_layers() -> None:
    assert [early_exit(layer, 4) for layer in (2, 3, 4, 7)] == [RUN, RUN, PROJECT_ONLY, PROJECT_ONLY]
