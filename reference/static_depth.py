"""Actions that no row's content decides: StaticDepth and EarlyExit (docs/contract.md)."""

from __future__ import annotations

import math

from reference.action import PROJECT_ONLY, RUN


def static_depth(index: int, routed_layers: int, ratio: float) -> int:
    """At the index-th of `routed_layers`: PROJECT_ONLY in the last ceil(ratio * routed_layers), for every row."""
    return PROJECT_ONLY if index >= routed_layers - math.ceil(ratio * routed_layers) else RUN


def early_exit(layer: int, exit_layer: int) -> int:
    """At a routed layer, by its number in the model: PROJECT_ONLY from `exit_layer` on, for every row."""
    return PROJECT_ONLY if layer >= exit_layer else RUN
