"""A fault of decode graphs as an engine on a GPU replays them in its own loop: clause WORK-1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.faults.lifecycle.make import gpu_fault
from vskipper.sglang.passes import current_pass
from vskipper.sglang.seams import decode_runner
from vskipper.sglang.seams.wrap import rewrap


def _eager_when_routed(original: Any) -> Any:
    """The engine is told that it has no graph for a routed batch, and the plugin that nothing was captured."""

    def broken(model: Any) -> Any:
        decoder = original(model)
        if decoder is not None and decoder.graphs is not None:
            decoder.graphs = None
            runner, method = decode_runner.replaying_method()
            rewrap(runner, "can_run_graph" if method == "execute" else "can_run", _declined)
        return decoder

    return broken


def _declined(original: Callable[..., bool], runner: Any, forward_batch: Any, *arguments: Any) -> bool:
    source = current_pass()
    routed = source is not None and source.is_routed(forward_batch)
    return not routed and original(runner, forward_batch, *arguments)


FAULTS = (
    gpu_fault(
        id="decode-runs-eagerly",
        title="a routed decode batch runs eagerly, layer by layer, where it has a graph",
        source="graphs that a check of the batch silently turns off",
        seam="vskipper.sglang.process:start",
        patch=_eager_when_routed,
        killer="life.alone",
        reason="decode_ran_eagerly",
        quiet=("life.slots",),
    ),
)
