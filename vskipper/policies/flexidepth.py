"""FlexiDepth (arXiv 2503.23798): a router and a projector at every routed layer, from a checkpoint's tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from vskipper.action import Action
from vskipper.policies.projector import CheckpointProjector, checkpoint_tensor
from vskipper.policy import GateMode, PolicyCapabilities, PolicyContext, Route, RowBatch, SwiGLU

NAME = "flexidepth"
THRESHOLD = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """Weights of one layer's router: enc [r, d], norm [r], dec [d, r], head [1, d]."""

    enc: Tensor
    norm: Tensor
    dec: Tensor
    head: Tensor
    eps: float

    def bottleneck(self, x: Tensor) -> Tensor:
        """tanh(RMSNorm_r(enc x)) [rows, r] of x [rows, d]; rounds to x's dtype, the variance excepted."""
        z = linear(x, self.enc)
        wide = z.to(torch.promote_types(z.dtype, torch.float32))
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return torch.tanh((wide * scale).to(z.dtype) * self.norm)

    def weight(self, x: Tensor) -> Tensor:
        """w [rows] of x [rows, d], in x's dtype."""
        return torch.sigmoid(linear(linear(self.bottleneck(x), self.dec), self.head)).squeeze(-1)


class FlexiDepth:
    """RUN iff w > 0.5, strictly, else PROJECT_ONLY. Gate mode weighted hands w on; hard does not."""

    def __init__(self, context: PolicyContext) -> None:
        self._routers = {layer: _router(context, layer) for layer in context.routed_layers}
        self._projector = CheckpointProjector(context, NAME)
        self._weighted = context.gate_mode == GateMode.WEIGHTED
        self.capabilities = PolicyCapabilities(
            needs_router=True,
            needs_projector=True,
            gate_modes=frozenset({context.gate_mode}),
            prefix_determined=True,
        )

    def begin(self, batch: RowBatch) -> None:
        return None

    def route(self, layer: int, x: Tensor, state: None) -> Route:
        w = self._routers[layer].weight(x)
        actions = torch.full_like(w, int(Action.PROJECT_ONLY), dtype=torch.uint8)
        actions = actions.masked_fill(w > THRESHOLD, int(Action.RUN))
        return Route(actions=actions, weights=w if self._weighted else None)

    def project(self, layer: int, y: Tensor, state: None) -> Tensor:
        return self._projector.project(layer, y, state)

    def swiglu(self, layer: int) -> SwiGLU:
        return self._projector.swiglu(layer)


def _router(context: PolicyContext, layer: int) -> Router:
    enc, norm, dec, head = (
        checkpoint_tensor(context, NAME, f"model.layers.{layer}.router.router_{part}.weight")
        for part in ("enc", "norm", "dec", "head")
    )
    return Router(enc=enc, norm=norm, dec=dec, head=head, eps=context.rms_norm_eps)
