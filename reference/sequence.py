"""One request whole: ReferenceModel's arithmetic over many rows of one sequence at once, for runs with many requests.

Held to ReferenceModel in float64 by a test; a row's sums may be ordered otherwise, so that it is no oracle of bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from reference.action import PROJECT_ONLY, RUN, attention_runs, mlp_runs
from reference.config import ModelConfig
from reference.norm import rms_norm, wide
from reference.rope import inverse_frequencies
from reference.weights import load

Kv = tuple[tuple[Tensor, Tensor], ...]
# (layer, y [rows, hidden]) -> [rows, hidden], unscaled
Project = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """kv: K and V of each layer for the new rows, [rows, kv heads, head dim]. logits: [rows, vocab]."""

    kv: Kv
    logits: Tensor


class SequenceModel:
    """tensors: by Hugging Face name. project: None adds nothing to a PROJECT_ONLY row. Gate mode hard: nothing is
    scaled."""

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, Tensor],
        routed_layers: Sequence[int],
        *,
        dtype: torch.dtype,
        project: Project | None = None,
    ) -> None:
        self.config, self.dtype = config, dtype
        self._routed, self._project = tuple(routed_layers), project
        self._weights = load(config, tensors, dtype)
        self._frequencies = inverse_frequencies(config, dtype)

    @torch.no_grad()
    def rows(self, past: Kv, tokens: Sequence[int], actions: Sequence[Sequence[int]]) -> Rows:
        """past: K and V of the positions before. actions: for each new token one code a routed layer."""
        start = past[0][0].shape[0]
        positions = torch.arange(start, start + len(tokens))
        h, kv = self._weights["model.embed_tokens.weight"][list(tokens)], []
        for layer, before in enumerate(past):
            codes = [RUN] * len(tokens)
            if layer in self._routed:
                codes = [line[self._routed.index(layer)] for line in actions]
            x = self._norm(layer, "input_layernorm", h)
            own = self._heads(layer, "k", x, positions), self._split(self._linear(layer, "self_attn.v_proj", x))
            kv.append(own)
            k, v = (torch.cat(pair) for pair in zip(before, own, strict=True))
            h = self._layer(layer, h, self._heads(layer, "q", x, positions), k, v, codes)
        head = "model.embed_tokens.weight" if self.config.tie_word_embeddings else "lm_head.weight"
        normed = rms_norm(h, self._weights["model.norm.weight"], self.config.rms_norm_eps)
        return Rows(kv=tuple(kv), logits=linear(normed, self._weights[head]))

    def _layer(self, layer: int, h: Tensor, q: Tensor, k: Tensor, v: Tensor, codes: list[int]) -> Tensor:
        attended = self._linear(layer, "self_attn.o_proj", self._attend(q, k, v))
        h = torch.where(_mask(codes, attention_runs), h + attended, h)
        y = self._norm(layer, "post_attention_layernorm", h)
        out = torch.where(_mask(codes, mlp_runs), h + self._mlp(layer, y), h)
        if self._project is None or PROJECT_ONLY not in codes:
            return out
        return torch.where(_mask(codes, lambda code: code == PROJECT_ONLY), h + self._project(layer, y), out)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Each row over its own position and those before: q [rows, heads, head dim] to [rows, heads * head dim]."""
        rows, context, groups = q.shape[0], k.shape[0], k.shape[1]
        wider = wide(q.dtype)
        queries = q.to(wider).view(rows, groups, -1, q.shape[-1])
        scores = torch.einsum("rkgd,ckd->rkgc", queries, k.to(wider)) / q.shape[-1] ** 0.5
        visible = torch.arange(context) <= torch.arange(context - rows, context)[:, None]
        weights = scores.masked_fill(~visible[:, None, None], -torch.inf).softmax(dim=-1)
        return torch.einsum("rkgc,ckd->rkgd", weights, v.to(wider)).reshape(rows, -1).to(q.dtype)

    def _heads(self, layer: int, name: str, x: Tensor, positions: Tensor) -> Tensor:
        heads = self._split(self._linear(layer, f"self_attn.{name}_proj", x))
        if self.config.architecture == "qwen3":
            heads = self._norm(layer, f"self_attn.{name}_norm", heads)
        angle = (positions[:, None] * self._frequencies)[:, None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], -1, self.config.head_dim)

    def _mlp(self, layer: int, y: Tensor) -> Tensor:
        gated = silu(self._linear(layer, "mlp.gate_proj", y)) * self._linear(layer, "mlp.up_proj", y)
        return self._linear(layer, "mlp.down_proj", gated)

    def _linear(self, layer: int, name: str, x: Tensor) -> Tensor:
        return linear(x, self._weights[f"model.layers.{layer}.{name}.weight"])

    def _norm(self, layer: int, name: str, x: Tensor) -> Tensor:
        return rms_norm(x, self._weights[f"model.layers.{layer}.{name}.weight"], self.config.rms_norm_eps)


def _mask(codes: Sequence[int], holds: Callable[[int], bool]) -> Tensor:
    return torch.tensor([holds(code) for code in codes])[:, None]
