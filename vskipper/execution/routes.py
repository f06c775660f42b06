"""From a policy's decision to what the branches need: forced rows, and the factor of each row's branch."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.action import ATTENTION_BIT, MLP_BIT, Action
from vskipper.policy import Route


def force_run(route: Route, rows: Tensor | None) -> Route:
    """The route with every row of rows (bool [rows]) made RUN with w = 1: the dense layer, bit for bit (SEM-3)."""
    if rows is None:
        return route
    weights = None if route.weights is None else torch.where(rows, torch.ones_like(route.weights), route.weights)
    actions = torch.where(rows, torch.full_like(route.actions, int(Action.RUN)), route.actions)
    return Route(actions=actions, weights=weights)


def join(first: Route, second: Route) -> Route:
    """A mid-layer policy's two decisions as one: attention as the first said, which has run; the MLP as the second."""
    actions = (first.actions & ATTENTION_BIT) | (second.actions & MLP_BIT)
    return Route(actions=actions, weights=second.weights)


def branch_scale(route: Route) -> Tensor | None:
    """What each row's branch output is multiplied by, [rows] in the dtype of the weights: w for RUN, 1 - w for
    PROJECT_ONLY, 1 for the sublayer actions; None in gate mode hard."""
    if route.weights is None:
        return None
    scale = torch.where(route.actions == int(Action.RUN), route.weights, torch.ones_like(route.weights))
    return torch.where(route.actions == int(Action.PROJECT_ONLY), 1 - route.weights, scale)
