"""FlexiDepth's gate and projector for one row, from a checkpoint's tensors by their full names (docs/contract.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from reference.action import PROJECT_ONLY, RUN
from reference.norm import rms_norm
from reference.routes import Decide

THRESHOLD = 0.5


def gate(tensors: Mapping[str, Tensor], layer: int, x: Tensor, eps: float) -> Tensor:
    """w of one row, a scalar tensor in x's dtype.

    x: [hidden], the layer's own input norm of the residual stream; no further norm stands before the router.
    """
    enc, norm, dec, head = (
        _weight(tensors, f"model.layers.{layer}.router.router_{part}", x) for part in ("enc", "norm", "dec", "head")
    )
    bottleneck = torch.tanh(rms_norm(enc @ x, norm, eps))
    logit = head @ (dec @ bottleneck)
    return torch.sigmoid(logit)[0]


def runs(w: Tensor) -> bool:
    """The row runs its layer only strictly above the threshold; at it, the row is projected."""
    return bool(w > THRESHOLD)


def project(tensors: Mapping[str, Tensor], layer: int, y: Tensor) -> Tensor:
    """The projector of one row y [hidden], unscaled.

    The names mislead: down_proj is the ungated branch and widens y to the bottleneck, up_proj leads back out of it.
    """
    gate_proj, down_proj, up_proj = (
        _weight(tensors, f"model.layers.{layer}.router_proj.{part}_proj", y) for part in ("gate", "down", "up")
    )
    return up_proj @ (torch.nn.functional.silu(gate_proj @ y) * (down_proj @ y))


def decide(tensors: Mapping[str, Tensor], eps: float, *, weighted: bool) -> Decide:
    """The policy whole, for ReferenceModel.step: RUN or PROJECT_ONLY by the gate, with w in gate mode weighted."""

    def by_gate(layer: int, x: Tensor, /) -> tuple[Sequence[int], Tensor | None]:
        w = [gate(tensors, layer, row, eps) for row in x]
        return [RUN if runs(each) else PROJECT_ONLY for each in w], torch.stack(w) if weighted else None

    return by_gate


def _weight(tensors: Mapping[str, Tensor], name: str, like: Tensor) -> Tensor:
    return tensors[f"{name}.weight"].to(like.dtype)
