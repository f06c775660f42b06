"""The projector of one layer as the branches see it: absent (adds nothing), a callable, or a SwiGLU for the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from vskipper.policy import SkipPolicy, SwiGLU


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """run: y [n, hidden] -> [n, hidden], row by row, or None where a PROJECT_ONLY row adds nothing.
    swiglu: the weights, where run is that SwiGLU."""

    run: Callable[[Tensor], Tensor] | None
    swiglu: SwiGLU | None = None


def projector_of(policy: SkipPolicy, layer: int, state: Any) -> Projector:
    """What PROJECT_ONLY rows of `layer` run under `policy` in this pass."""
    if not policy.capabilities.needs_projector:
        return Projector(run=None)
    weights = getattr(policy, "swiglu", None)
    return Projector(run=partial(_project, policy, layer, state), swiglu=None if weights is None else weights(layer))


def _project(policy: SkipPolicy, layer: int, state: Any, y: Tensor) -> Tensor:
    return policy.project(layer, y, state)
