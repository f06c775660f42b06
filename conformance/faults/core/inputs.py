"""Faults of what is refused at start: clause IN-1."""

from __future__ import annotations

from typing import Any

from conformance.faults.fault import Fault


def _accept(original: Any) -> Any:
    def broken(*arguments: Any, **named: Any) -> None:
        return None

    return broken


FAULTS = (
    Fault(
        id="values-not-checked",
        title="NaN and infinite weights are loaded",
        source="a checkpoint that diverged in training",
        seam="vskipper.checkpoint.weights:_check_values",
        patch=_accept,
        killer="input.refused",
        reason="bad_input_accepted",
        quiet=("kv.complete", "kv.footprint", "map.partition", "sem.outputs", "policy.declared"),
    ),
)
