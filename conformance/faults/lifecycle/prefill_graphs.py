"""Faults of prefill graphs, which an engine on a GPU has: clauses MODE-1 and MODE-3."""

from __future__ import annotations

from typing import Any

from conformance.faults.lifecycle.make import gpu_fault
from vskipper.sglang.seams import prefill_runner
from vskipper.sglang.seams.wrap import rewrap


def _unseen(original: Any) -> Any:
    """No pass is known to be routed."""
    return lambda: None


def _declined_when_dense(original: Any) -> Any:
    """A dense engine's prefill has no graph."""

    def broken(model: Any) -> Any:
        decoder = original(model)
        if decoder is None:
            for runner, method in prefill_runner.runners():
                rewrap(runner, method, lambda original, *arguments: False)
        return decoder

    return broken


FAULTS = (
    gpu_fault(
        id="prefill-graph-not-declined",
        title="a routed prefill takes the engine's graph, which pads it to rows of no request",
        source="padding rows counted",
        seam="vskipper.sglang.seams.prefill_runner:current_pass",
        patch=_unseen,
        killer="mode.fixed",
        # the plugin notices by itself
        reason="crash:RuntimeError",
        quiet=("mode.dense",),
    ),
    gpu_fault(
        id="prefill-graph-lost",
        title="a dense engine runs a prefill eagerly where the stock engine has a graph for it",
        source="a plugin that is off and changes something",
        seam="vskipper.sglang.process:start",
        patch=_declined_when_dense,
        killer="mode.dense",
        reason="graph_differs",
        quiet=("life.slots",),
    ),
)
