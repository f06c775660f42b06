"""Mixed depth written a second time: one whole sequence, all rows at once, without a pool, in matrices.

Nothing here comes from the oracle. Rotation is done with complex numbers, masks do what the oracle's branches do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

T = Mapping[str, Tensor]
Routes = Callable[[Tensor], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    qk_norm: bool


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def turned(x: Tensor, theta: float) -> Tensor:
    """x [n, heads, head_dim]: dimension i and i + head_dim / 2 are the parts of one complex number."""
    n, _, dim = x.shape
    half = dim // 2
    speed = theta ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = torch.outer(torch.arange(n, dtype=x.dtype), speed)
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)[:, None]
    return torch.cat((z.real, z.imag), dim=-1)


def swish(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def router(t: T, layer: int, x: Tensor, eps: float) -> Tensor:
    p = f"model.layers.{layer}.router.router_"
    squeezed = normed(x @ t[p + "enc.weight"].T, t[p + "norm.weight"], eps).tanh()
    return 1 / (1 + torch.exp(-(squeezed @ t[p + "dec.weight"].T @ t[p + "head.weight"].T)))[:, 0]


def projector(t: T, layer: int, y: Tensor) -> Tensor:
    p = f"model.layers.{layer}.router_proj."
    gated = swish(y @ t[p + "gate_proj.weight"].T) * (y @ t[p + "down_proj.weight"].T)
    return gated @ t[p + "up_proj.weight"].T


def attention(t: T, prefix: str, x: Tensor, s: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of every row; also K and V, [n, kv_heads, head_dim]."""
    q, k, v = (
        (x @ t[f"{prefix}.self_attn.{name}_proj.weight"].T).view(len(x), -1, s.head_dim) for name in ("q", "k", "v")
    )
    if s.qk_norm:
        q = normed(q, t[f"{prefix}.self_attn.q_norm.weight"], s.eps)
        k = normed(k, t[f"{prefix}.self_attn.k_norm.weight"], s.eps)
    q, k = turned(q, s.theta), turned(k, s.theta)
    wide_k, wide_v = (each.repeat_interleave(s.heads // s.kv_heads, dim=1) for each in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, wide_k) / s.head_dim**0.5
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    mixed = torch.einsum("hij,jhd->ihd", scores.masked_fill(future, float("-inf")).softmax(-1), wide_v)
    return mixed.flatten(1) @ t[f"{prefix}.self_attn.o_proj.weight"].T, k, v


def mlp(t: T, prefix: str, y: Tensor) -> Tensor:
    gated = swish(y @ t[f"{prefix}.mlp.gate_proj.weight"].T) * (y @ t[f"{prefix}.mlp.up_proj.weight"].T)
    return gated @ t[f"{prefix}.mlp.down_proj.weight"].T


def forward(t: T, s: Sizes, tokens: Tensor, routes: Mapping[int, Routes], project: bool = True) -> dict[str, Tensor]:
    """routes: of each routed layer, from x [n, hidden] to actions [n] and w [n], or None in gate mode hard.

    Returns logits [n, vocab], hidden [layers + 1, n, hidden], keys and values [layers, n, kv_heads, head_dim].
    """
    h = t["model.embed_tokens.weight"][tokens]
    hidden, keys, values = [h], [], []
    for layer in range(s.layers):
        prefix = f"model.layers.{layer}"
        x = normed(h, t[f"{prefix}.input_layernorm.weight"], s.eps)
        actions, w = routes[layer](x) if layer in routes else (torch.full_like(tokens, 3), None)
        one, both, neither = (torch.isin(actions, torch.tensor(codes)).to(h.dtype) for codes in ((2,), (3,), (0,)))
        attends = both + (actions == 1).to(h.dtype)
        mixed, k, v = attention(t, prefix, x, s)
        h = h + attends[:, None] * mixed
        y = normed(h, t[f"{prefix}.post_attention_layernorm.weight"], s.eps)
        run_scale, project_scale = (1.0, 1.0) if w is None else (w, 1 - w)
        h = h + (both * run_scale + one)[:, None] * mlp(t, prefix, y)
        if project and layer in routes:
            h = h + (neither * project_scale)[:, None] * projector(t, layer, y)
        hidden.append(h)
        keys.append(k)
        values.append(v)
    head = t.get("lm_head.weight", t["model.embed_tokens.weight"])
    logits = normed(h, t["model.norm.weight"], s.eps) @ head.T
    return {"logits": logits, "hidden": torch.stack(hidden), "keys": torch.stack(keys), "values": torch.stack(values)}
