"""Faults of what is refused at start: clause IN-1."""

from __future__ import annotations

from typing import Any

from conformance.faults.fault import Fault
from vskipper.sglang.probe import UNKNOWN, ProbeReport, Seam


def _accept(original: Any) -> Any:
    def broken(*arguments: Any, **named: Any) -> None:
        return None

    return broken


def _unknown_is_served(original: Any) -> Any:
    """Seams of a shape that nobody has seen are left to luck."""

    def broken(self: ProbeReport, *, graphs: bool = False) -> tuple[Seam, ...]:
        return tuple(seam for seam in original(self, graphs=graphs) if seam.word != UNKNOWN)

    return broken


QUIET = ("kv.complete", "kv.footprint", "map.partition", "sem.outputs", "policy.declared")
FAULTS = (
    Fault(
        id="values-not-checked",
        title="NaN and infinite weights are loaded",
        source="a checkpoint that diverged in training",
        seam="vskipper.checkpoint.weights:_check_values",
        patch=_accept,
        killer="input.refused",
        reason="bad_input_accepted",
        quiet=QUIET,
    ),
    Fault(
        id="unknown-engine-served",
        title="an engine whose code nobody has seen is patched all the same",
        source="sglang's internals, which change from version to version",
        seam="vskipper.sglang.probe.report:ProbeReport.unusable",
        patch=_unknown_is_served,
        killer="input.refused",
        reason="bad_input_accepted",
        quiet=QUIET,
    ),
    Fault(
        id="gpu-not-checked",
        title="an engine starts on a GPU that the kernels are not made for, or on none",
        source="the authors' system on a GPU that it does not name",
        seam="vskipper.sglang.checks.gpu:check_gpu",
        patch=_accept,
        killer="input.refused",
        reason="bad_input_accepted",
        quiet=QUIET,
    ),
    Fault(
        id="plan-not-checked",
        title="a pass is run whose rows lie outside their request's pages, or the pool's",
        source="a page table that is read past its end",
        seam="conformance.runtimes.torch_runtime.session:check_plan",
        patch=_accept,
        killer="input.plan_refused",
        reason="bad_input_accepted",
        quiet=QUIET,
    ),
)
