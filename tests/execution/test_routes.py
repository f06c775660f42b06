"""Forced rows and branch factors."""

from __future__ import annotations

import torch

from vskipper.action import Action
from vskipper.execution.routes import branch_scale, force_run
from vskipper.policy import Route

ACTIONS = torch.tensor([Action.RUN, Action.PROJECT_ONLY, Action.SKIP_ATTN, Action.SKIP_MLP], dtype=torch.uint8)


def test_scale_is_w_for_run_its_complement_for_project_only_and_one_for_sublayers() -> None:
    route = Route(actions=ACTIONS, weights=torch.tensor([0.75, 0.25, 0.25, 0.75]))
    scale = branch_scale(route)
    assert scale is not None
    assert scale.tolist() == [0.75, 0.75, 1.0, 1.0]


def test_hard_gate_has_no_scale() -> None:
    assert branch_scale(Route(actions=ACTIONS)) is None


def test_forced_rows_run_with_weight_one_and_the_others_keep_their_route() -> None:
    route = Route(actions=ACTIONS, weights=torch.tensor([0.75, 0.25, 0.25, 0.75]))
    forced = force_run(route, torch.tensor([True, True, False, False]))
    assert forced.actions.tolist() == [Action.RUN, Action.RUN, Action.SKIP_ATTN, Action.SKIP_MLP]
    assert forced.weights is not None
    assert forced.weights.tolist() == [1.0, 1.0, 0.25, 0.75]


def test_nothing_forced_is_the_same_route() -> None:
    route = Route(actions=ACTIONS)
    assert force_run(route, None) is route
