"""Faults of a policy against what it declares: clauses POL-1 and POL-2."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.fault import WRITES_AND_MAPS, Fault
from vskipper.action import Action
from vskipper.policy import Route

HOOK = "vskipper.policies.flexidepth:FlexiDepth"


def run_where(rows: Tensor) -> Tensor:
    """Actions uint8 [rows]: RUN where rows bool [rows] is True, else PROJECT_ONLY."""
    return torch.where(rows, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8)


def _undeclared_action(original: Any) -> Any:
    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        return replace(route, actions=torch.full_like(route.actions, int(Action.SKIP_MLP)))

    return broken


def _reads_neighbours(original: Any) -> Any:
    """The half of the rows with the larger weights runs: a quantile over the batch."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        score = torch.nan_to_num(x).sum(-1)
        runs = score >= score.median()
        return replace(route, actions=run_where(runs))

    return broken


def _counts_from_chunk_start(original: Any) -> Any:
    """Decides by a row's place in the pass in place of its position."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        odd = torch.arange(x.shape[0]) % 2 == 1
        return replace(route, actions=run_where(odd))

    return broken


def _alternating(original: Any) -> Any:
    """Decides by how often it was asked."""
    calls = itertools.count(1)

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        action = (Action.RUN, Action.PROJECT_ONLY)[next(calls) % 7 % 2]
        return replace(route, actions=torch.full_like(route.actions, int(action)))

    return broken


def _compares_with_first_row(original: Any) -> Any:
    """A row runs where it is larger than the first row of the pass, whichever that is."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        score = torch.nan_to_num(x).sum(-1)
        runs = score > score[0]
        return replace(route, actions=run_where(runs))

    return broken


def _reads_back(original: Any) -> Any:
    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        if int(route.actions.max()) < 0:
            raise AssertionError
        return route

    return broken


def _less_the_mean(original: Any) -> Any:
    """What a row adds is taken less the mean over the rows that are projected with it."""

    def broken(self: Any, layer: int, y: Tensor, state: Any) -> Tensor:
        projected: Tensor = original(self, layer, y, state)
        return projected - y.mean(0)

    return broken


QUIET = (*WRITES_AND_MAPS, "sem.outputs")
FAULTS = (
    Fault(
        id="policy-undeclared-action",
        title="an action that the policy does not declare",
        source="arXiv:2609.37062, executor refuses all but two actions",
        seam=f"{HOOK}.route",
        patch=_undeclared_action,
        killer="policy.declared",
        reason="undeclared_action",
        quiet=QUIET,
    ),
    Fault(
        id="policy-reads-neighbours",
        title="a quantile over the batch decides",
        source="GateSkip and MoD, decided by top-k",
        seam=f"{HOOK}.route",
        patch=_reads_neighbours,
        killer="policy.batch_invariant",
        reason="depends_on_batch",
        quiet=QUIET,
    ),
    Fault(
        id="policy-projects-by-neighbours",
        title="a row's projector depends on the rows that are projected with it",
        source="GateSkip and MoD, decided by top-k",
        seam=f"{HOOK}.project",
        patch=_less_the_mean,
        killer="policy.declared",
        reason="projector_depends_on_batch",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="policy-counts-from-chunk",
        title="a row's place in the pass decides in place of its position",
        source="sglang#13700",
        seam=f"{HOOK}.route",
        patch=_counts_from_chunk_start,
        killer="policy.chunk_invariant",
        reason="depends_on_chunk",
        quiet=QUIET,
    ),
    Fault(
        id="policy-not-deterministic",
        title="the same rows get other decisions the next time",
        source="SkipGPT's sampled gate",
        seam=f"{HOOK}.route",
        patch=_alternating,
        killer="policy.deterministic",
        reason="not_deterministic",
        quiet=QUIET,
    ),
    Fault(
        id="policy-compares-with-first",
        title="a policy that says prefixes decide compares with the first row of the pass",
        source="vllm#3264",
        seam=f"{HOOK}.route",
        patch=_compares_with_first_row,
        killer="policy.prefix_determined",
        reason="not_prefix_determined",
        quiet=QUIET,
    ),
    Fault(
        id="policy-reads-back",
        title="a hook copies a value to the host",
        source="TensorRT-LLM#17110",
        seam=f"{HOOK}.route",
        patch=_reads_back,
        killer="policy.on_device",
        reason="host_synchronisation",
        quiet=QUIET,
    ),
)
