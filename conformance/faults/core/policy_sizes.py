"""Faults of a policy that small passes at the beginning of a request do not show: clause POL-1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.policies import HOOK, QUIET
from conformance.faults.fault import WRITES_AND_MAPS, Fault
from vskipper.action import Action
from vskipper.policy import Route, RowBatch

# rows of a tile, and positions of a short context
TILE = 16
POSITIONS = 1024


def _skips_in_wide_passes(original: Any) -> Any:
    """Every row is projected where the pass has more rows than a tile."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        if x.shape[0] <= TILE:
            return route
        return replace(route, actions=torch.full_like(route.actions, int(Action.PROJECT_ONLY)))

    return broken


def _adds_mean_of_wide_cohorts(original: Any) -> Any:
    def broken(self: Any, layer: int, y: Tensor, state: Any) -> Tensor:
        projected: Tensor = original(self, layer, y, state)
        return projected if y.shape[0] <= TILE else projected + y.mean(0)

    return broken


def _short_table(original: Any) -> Any:
    """Looks every position up in a table that ends before the model's last one."""
    table = torch.arange(POSITIONS)

    def broken(self: Any, batch: RowBatch) -> Any:
        assert table[batch.positions].shape == batch.positions.shape
        return original(self, batch)

    return broken


FAULTS = (
    Fault(
        id="policy-wide-pass",
        title="in a pass of more rows than a tile every row is told otherwise",
        source="vllm#50136",
        seam=f"{HOOK}.route",
        patch=_skips_in_wide_passes,
        killer="policy.batch_invariant",
        reason="depends_on_batch",
        quiet=QUIET,
    ),
    Fault(
        id="policy-projects-wide-cohorts",
        title="a row's projector depends on the rows beside it once they are more than a tile",
        source="vllm#9567",
        seam=f"{HOOK}.project",
        patch=_adds_mean_of_wide_cohorts,
        killer="policy.declared",
        reason="projector_depends_on_batch",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="policy-short-table",
        title="positions that the model has and the policy's table does not",
        source="tables made for the length of a training sample",
        seam=f"{HOOK}.begin",
        patch=_short_table,
        killer="policy.declared",
        reason="hook_raised",
        quiet=QUIET,
    ),
)
