"""Fits an untrained router and projector to a base model, one routed layer after the other, each on what reaches it.

A router has no bias, so a random one sends nearly all rows one way. Each layer's head is therefore a random direction
plus a multiple of the one along which rows differ least (a bias, as far as there can be one), so chosen that its share
of the calibration rows lies at w <= 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.models.forward import Decoder, Prompts
from vskipper.policies.flexidepth import FlexiDepth, Router
from vskipper.policies.projector import CheckpointProjector
from vskipper.policy import PolicyContext

REDUCTION = 16
# spread of the logits over rows, so that w covers most of (0, 1), and size of a projector's output beside its MLP's
_LOGIT_SPREAD = 1.5
_PROJECTOR_SHARE = 0.5

Tensors = dict[str, Tensor]


def calibrate(
    decoder: Decoder, prompts: Prompts, base: PolicyContext, targets: Mapping[int, float], generator: torch.Generator
) -> Tensors:
    """Router and projector tensors of the layers in `targets`, by full name; a target is the layer's skipped share.

    base: the context that a policy on the model is built with; its gate mode is the one calibrated for.
    """
    tensors: Tensors = {}
    h = decoder.embed(prompts)
    for layer in range(max(targets) + 1):
        if layer not in targets:
            h = _dense(decoder, prompts, layer, h)
            continue
        x = decoder.input_norm(layer, h)
        y = decoder.post_norm(layer, h + decoder.attention(layer, x, prompts))
        context = replace(base, routed_layers=(layer,))
        tensors |= _router(context, layer, x, targets[layer], generator)
        tensors |= _projector(context, layer, y, decoder.mlp(layer, y), generator)
        h, _ = _routed(decoder, prompts, FlexiDepth(replace(context, tensors=tensors)), layer, h)
    return tensors


def skip_shares(decoder: Decoder, prompts: Prompts, context: PolicyContext) -> tuple[float, ...]:
    """Share of the prompts' rows that are PROJECT_ONLY, by routed layer of the context, when FlexiDepth routes."""
    policy, shares = FlexiDepth(context), []
    h = decoder.embed(prompts)
    for layer in range(max(context.routed_layers) + 1):
        if layer in context.routed_layers:
            h, skipped = _routed(decoder, prompts, policy, layer, h)
            shares.append(skipped.float().mean().item())
        else:
            h = _dense(decoder, prompts, layer, h)
    return tuple(shares)


def _router(context: PolicyContext, layer: int, x: Tensor, target: float, generator: torch.Generator) -> Tensors:
    hidden, width = context.hidden_size, max(1, context.hidden_size // REDUCTION)
    enc = torch.randn(width, hidden, generator=generator) / hidden**0.5
    # orthonormal columns: the head then reaches the bottleneck unchanged
    dec = torch.linalg.qr(torch.randn(hidden, width, generator=generator)).Q.contiguous()
    norm, head = torch.ones(width), torch.zeros(1, hidden)
    # in float64, so that the float32 head is the same bits wherever its buffers happen to lie
    bottleneck = Router(enc=enc, norm=norm, dec=dec, head=head, eps=context.rms_norm_eps).bottleneck(x).double()
    direction = _direction(bottleneck, target, generator)
    direction *= _LOGIT_SPREAD / (bottleneck @ direction).std()
    parts = {"enc": enc, "norm": norm, "dec": dec, "head": (dec.double() @ direction)[None].float()}
    return {f"model.layers.{layer}.router.router_{part}.weight": tensor for part, tensor in parts.items()}


def _direction(bottleneck: Tensor, target: float, generator: torch.Generator) -> Tensor:
    """[r], along which the share `target` of bottleneck [rows, r] lies at or below 0, as nearly as the rows allow."""
    ones = torch.ones(bottleneck.shape[0], 1, dtype=bottleneck.dtype)
    bias = torch.linalg.lstsq(bottleneck, ones).solution[:, 0]
    bias /= bias.norm()
    direction = torch.randn(bias.numel(), generator=generator, dtype=bias.dtype)
    direction -= (direction @ bias) * bias
    direction /= direction.norm()
    along, across = bottleneck @ bias, bottleneck @ direction
    # each row changes sides at one multiple of the bias; between two of these the share is constant
    crossings = (-across / along).sort().values
    multiples = (crossings[1:] + crossings[:-1]) / 2
    shares = (across + multiples[:, None] * along <= 0).double().mean(1)
    nearest = multiples[(shares - target).abs().argmin()]
    return torch.add(direction, nearest * bias)


def _projector(context: PolicyContext, layer: int, y: Tensor, mlp: Tensor, generator: torch.Generator) -> Tensors:
    hidden, width = context.hidden_size, max(1, context.intermediate_size // REDUCTION)
    name = f"model.layers.{layer}.router_proj."
    tensors = {
        f"{name}gate_proj.weight": torch.randn(width, hidden, generator=generator) / hidden**0.5,
        f"{name}down_proj.weight": torch.randn(width, hidden, generator=generator) / hidden**0.5,
        f"{name}up_proj.weight": torch.randn(hidden, width, generator=generator) / width**0.5,
    }
    projected = CheckpointProjector(replace(context, tensors=tensors), "calibration").project(layer, y, None)
    # the median row: a few rows carry activations far beyond all others
    ratio = mlp.norm(dim=-1).median() / projected.norm(dim=-1).median()
    tensors[f"{name}up_proj.weight"] *= _PROJECTOR_SHARE * ratio
    return tensors


def _dense(decoder: Decoder, prompts: Prompts, layer: int, h: Tensor) -> Tensor:
    h = h + decoder.attention(layer, decoder.input_norm(layer, h), prompts)
    return h + decoder.mlp(layer, decoder.post_norm(layer, h))


def _routed(decoder: Decoder, prompts: Prompts, policy: FlexiDepth, layer: int, h: Tensor) -> tuple[Tensor, Tensor]:
    """The residual stream that leaves the layer, and which rows skipped it (bool [rows])."""
    x = decoder.input_norm(layer, h)
    route = policy.route(layer, x, None)
    runs = (route.actions == int(Action.RUN))[:, None]
    h = h + torch.where(runs, decoder.attention(layer, x, prompts), 0)
    y = decoder.post_norm(layer, h)
    run, projected = decoder.mlp(layer, y), policy.project(layer, y, None)
    if route.weights is not None:
        w = route.weights[:, None]
        run, projected = w * run, (1 - w) * projected
    return h + torch.where(runs, run, projected), ~runs[:, 0]
