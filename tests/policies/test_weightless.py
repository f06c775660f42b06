"""StaticDepth, EarlyExit and RandomSublayer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tests.policies.batches import LAYERS, batch, context, stream
from vskipper.action import Action
from vskipper.errors import InputError
from vskipper.policies.early_exit import EarlyExit
from vskipper.policies.random_skip import RandomSkip
from vskipper.policies.random_sublayer import RandomSublayer
from vskipper.policies.static_depth import StaticDepth

R, P = [3, 3], [0, 0]


def tape(policy: Any) -> list[list[int]]:
    state = policy.begin(batch(["a", "b"], [0, 5]))
    return [policy.route(layer, stream(2), state).actions.tolist() for layer in LAYERS]


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0.0, [R, R, R, R]), (0.01, [R, R, R, P]), (0.25, [R, R, R, P]), (0.26, [R, R, P, P]), (1, [P, P, P, P])],
)
def test_static_depth(ratio: float, expected: list[list[int]]) -> None:
    assert tape(StaticDepth(context(), ratio=ratio)) == expected


@pytest.mark.parametrize(
    ("exit_layer", "expected"),
    [(0, [P, P, P, P]), (3, [R, P, P, P]), (5, [R, R, R, P]), (8, [R, R, R, R]), (None, [R, R, P, P])],
)
def test_early_exit(exit_layer: int | None, expected: list[list[int]]) -> None:
    assert tape(EarlyExit(context(), exit_layer=exit_layer)) == expected


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (StaticDepth, {"ratio": 1.1}),
        (StaticDepth, {"ratio": float("inf")}),
        (EarlyExit, {"exit_layer": -1}),
        (EarlyExit, {"exit_layer": 9}),
        (EarlyExit, {"exit_layer": 2.0}),
        (RandomSublayer, {"seed": -1}),
        (RandomSublayer, {"projector": "x"}),
    ],
)
def test_settings_out_of_range(make: Any, setting: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"setting {next(iter(setting))}"):
        make(context(), **setting)


def test_random_sublayer_draws_the_four_actions_alike() -> None:
    rows = 8_000
    policy = RandomSublayer(context(), seed=5)
    state, x = policy.begin(batch(["a"] * rows, range(rows))), stream(rows)
    layers = [policy.route(layer, x, state).actions for layer in LAYERS]
    for actions in layers:
        counts = Counter(actions.tolist())
        # a quarter each, within 5 standard deviations of 38.7
        assert all(abs(counts[int(action)] - rows / 4) < 194 for action in Action)
    # layers draw anew: two agree on a quarter of the rows
    assert abs(int((layers[0] == layers[1]).sum()) - rows / 4) < 194
    assert policy.capabilities.actions == frozenset(Action)


def test_random_sublayer_depends_on_its_seed_and_no_neighbour() -> None:
    one, other = (RandomSublayer(context(), seed=seed) for seed in (1, 2))
    requests, positions, x = ["a", "b"] * 50, list(range(100)), stream(100)
    whole = one.route(3, x, one.begin(batch(requests, positions))).actions
    assert not torch.equal(whole, other.route(3, x, other.begin(batch(requests, positions))).actions)
    for row in (0, 1, 99):
        alone = one.route(3, x[:1], one.begin(batch([requests[row]], [positions[row]]))).actions
        assert alone.item() == whole[row].item()


@pytest.mark.parametrize(
    ("make", "always", "sometimes"),
    [
        (StaticDepth, {"ratio": 0.0}, {"ratio": 0.1}),
        (EarlyExit, {"exit_layer": 8}, {"exit_layer": 5}),
        (RandomSkip, {"r": 0.0, "d": 1.0}, {"r": 0.1, "d": 0.1}),
        (RandomSkip, {"r": 1.0, "d": 0.0}, {"r": 1.0, "d": 0.1}),
    ],
)
def test_only_what_ever_projects_declares_it(make: Any, always: dict[str, float], sometimes: dict[str, float]) -> None:
    assert make(context(), **always).capabilities.actions == {Action.RUN}
    assert make(context(), **sometimes).capabilities.actions == {Action.RUN, Action.PROJECT_ONLY}


@pytest.mark.parametrize("make", [StaticDepth, EarlyExit, RandomSublayer])
def test_zero_projector(make: Any) -> None:
    policy = make(context())
    assert not policy.project(3, stream(2), policy.begin(batch(["a", "b"], [0, 1]))).any()
    assert policy.capabilities.needs_projector is False
