"""Faults of a policy that keeps state, or changes what it shares with the engine: clauses POL-1 and POL-2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.core.policies import HOOK, QUIET
from conformance.faults.fault import Fault
from vskipper.action import Action
from vskipper.policy import Route


def _alternates_by_pass(original: Any) -> Any:
    """Counts passes on the device; every second one projects all rows."""
    passes = torch.zeros((), dtype=torch.int64)

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        passes.add_(layer == min(self._routers))
        codes = torch.where(passes % 2 == 0, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8)
        return replace(route, actions=codes.expand_as(route.actions).clone())

    return broken


def _keeps_layers(original: Any) -> Any:
    """A list that grows with every call, held by the hook and not by the policy."""
    layers: list[int] = []

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        layers.append(layer)
        route: Route = original(self, layer, x, state)
        return route

    return broken


def _reseeds(original: Any) -> Any:
    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        torch.manual_seed(23)
        route: Route = original(self, layer, x, state)
        return route

    return broken


def _writes_weights(original: Any) -> Any:
    """Turns the sign of a norm's weights at every call."""

    def broken(self: Any, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = original(self, layer, x, state)
        self._routers[layer].norm.neg_()
        return route

    return broken


FAULTS = (
    Fault(
        id="policy-alternates-by-pass",
        title="a counter on the device turns the decisions of every second pass",
        source="GateSkip's budget, carried from pass to pass",
        seam=f"{HOOK}.route",
        patch=_alternates_by_pass,
        killer="policy.deterministic",
        reason="not_deterministic",
        quiet=QUIET,
    ),
    Fault(
        id="policy-keeps-layers",
        title="a list that a hook closes over grows in every pass",
        source="CUDA graphs: what Python does in a pass is done once, at the capture",
        seam=f"{HOOK}.route",
        patch=_keeps_layers,
        killer="policy.on_device",
        reason="python_state_changes",
        quiet=QUIET,
    ),
    Fault(
        id="policy-reseeds",
        title="a hook seeds the random numbers that the engine samples with",
        source="flash-fft-conv#26",
        seam=f"{HOOK}.route",
        patch=_reseeds,
        killer="policy.on_device",
        reason="process_state_changes",
        quiet=QUIET,
    ),
    Fault(
        id="policy-writes-weights",
        title="a hook writes into the tensors of the checkpoint",
        source="ipex-llm#2838",
        seam=f"{HOOK}.route",
        patch=_writes_weights,
        killer="policy.on_device",
        reason="given_tensors_written",
        quiet=QUIET,
        # what is written stays written, for every property that lets the policy decide
        only_named=True,
    ),
)
