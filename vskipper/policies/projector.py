"""What PROJECT_ONLY rows of a built-in policy run: nothing, or FlexiDepth's projector from a checkpoint's tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import InputError
from vskipper.policies.settings import choice
from vskipper.policy import PolicyContext, SwiGLU


class ZeroProjector:
    """Adds nothing: a PROJECT_ONLY row's residual stream passes the layer unchanged."""

    def project(self, layer: int, y: Tensor, state: object) -> Tensor:
        return torch.zeros_like(y)


class CheckpointProjector:
    """up(silu(gate y) * down y) of every routed layer; down_proj widens to the bottleneck, up_proj leads back."""

    def __init__(self, context: PolicyContext, policy: str) -> None:
        self._weights = {layer: _swiglu(context, policy, layer) for layer in context.routed_layers}

    def project(self, layer: int, y: Tensor, state: object) -> Tensor:
        weights = self._weights[layer]
        gate, inner = torch.nn.functional.linear(y, weights.w_in).chunk(2, dim=-1)
        return torch.nn.functional.linear(torch.nn.functional.silu(gate) * inner, weights.w_out)

    def swiglu(self, layer: int) -> SwiGLU:
        return self._weights[layer]


def actions_taken(projects: bool) -> frozenset[Action]:
    """RUN, and PROJECT_ONLY of a policy whose settings ever ask for it."""
    return frozenset({Action.RUN, Action.PROJECT_ONLY} if projects else {Action.RUN})


def open_projector(context: PolicyContext, policy: str, kind: str) -> ZeroProjector | CheckpointProjector:
    """The projector that setting `projector` names: zero or checkpoint; raises InputError for others."""
    if choice(policy, "projector", kind, ("zero", "checkpoint")) == "zero":
        return ZeroProjector()
    return CheckpointProjector(context, policy)


def checkpoint_tensor(context: PolicyContext, policy: str, name: str) -> Tensor:
    """The checkpoint's tensor `name` in the context's dtype, on its device; raises InputError where it has none."""
    if name not in context.tensors:
        got = f"{len(context.tensors)} router tensors without it"
        raise InputError("tensor is missing", where=f"policy {policy}", got=got, expected=name)
    return context.tensors[name].detach().to(dtype=context.dtype, device=context.device).contiguous()


def _swiglu(context: PolicyContext, policy: str, layer: int) -> SwiGLU:
    gate, down, up = (
        checkpoint_tensor(context, policy, f"model.layers.{layer}.router_proj.{part}_proj.weight")
        for part in ("gate", "down", "up")
    )
    return SwiGLU(w_in=torch.cat((gate, down)), w_out=up)
