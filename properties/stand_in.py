"""A policy in place of another one, whose declaration and projector stay."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from vskipper.policy import PolicyCapabilities, RowBatch, SkipPolicy, SwiGLU


class StandIn:
    """Declares and projects as the policy that it stands in for."""

    def __init__(self, inner: SkipPolicy) -> None:
        self.inner = inner
        self.capabilities: PolicyCapabilities = inner.capabilities

    def begin(self, batch: RowBatch) -> Any:
        return self.inner.begin(batch)

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return self.inner.project(layer, y, state)

    def swiglu(self, layer: int) -> SwiGLU | None:
        weights = getattr(self.inner, "swiglu", None)
        return None if weights is None else weights(layer)
