"""Faults of prefill graphs, which an engine on a GPU has: clauses MODE-1 and MODE-3."""

from __future__ import annotations

from functools import partial
from typing import Any

from conformance.faults.lifecycle.make import lifecycle_fault
from vskipper.sglang.checks.gpu import BACKENDS

prefill_fault = partial(
    lifecycle_fault, seam="vskipper.sglang.seams.prefill_runner:current_pass", backends=tuple(BACKENDS)
)


class _Routed:
    """A source that calls every pass a routed one."""

    def is_routed(self, forward_batch: Any) -> bool:
        return True


def _never_seen(original: Any) -> Any:
    """No pass is known to be routed."""
    return lambda: None


def _always_routed(original: Any) -> Any:
    """A pass of which nothing was published counts as routed too."""
    return lambda: original() or _Routed()


FAULTS = (
    prefill_fault(
        id="prefill-graph-not-declined",
        title="a routed prefill replays the engine's graph, in which every row runs every layer",
        source="16,702 decode passes with skip 0",
        patch=_never_seen,
        killer="mode.fixed",
        reason="ran_in_another_mode",
        quiet=("mode.dense",),
    ),
    prefill_fault(
        id="prefill-graph-lost",
        title="a dense prefill runs eagerly where the engine has a graph for it",
        source="a plugin that slows the engine down where nothing is skipped",
        patch=_always_routed,
        killer="mode.dense",
        reason="graph_differs",
        quiet=("mode.fixed",),
    ),
)
