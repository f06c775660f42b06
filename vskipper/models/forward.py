"""A compact float32 forward pass over whole prompts, dense or routed, layer by layer: what calibration needs to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from vskipper.checkpoint.config import ModelSpec
from vskipper.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """Prompts side by side, one row a token: tokens and positions int64 [rows]; mask bool [rows, rows], causal and
    within a prompt."""

    tokens: Tensor
    positions: Tensor
    mask: Tensor


def lay_out(prompts: Sequence[Sequence[int]]) -> Prompts:
    positions = torch.cat([torch.arange(len(prompt)) for prompt in prompts])
    owner = torch.repeat_interleave(torch.arange(len(prompts)), torch.tensor([len(prompt) for prompt in prompts]))
    same = owner[:, None] == owner[None, :]
    return Prompts(
        tokens=torch.tensor([token for prompt in prompts for token in prompt]),
        positions=positions,
        mask=same & (positions[:, None] >= positions[None, :]),
    )


class Decoder:
    """The dense decoder's parts on a checkpoint's tensors, cast to float32; the residual stream is [rows, hidden]."""

    def __init__(self, spec: ModelSpec, tensors: Mapping[str, Tensor]) -> None:
        if spec.rope_scaling is not None:
            got = spec.rope_scaling["rope_type"]
            raise InputError("rope type is not computed here", where="rope_scaling", got=got, expected="default")
        self.spec = spec
        self._tensors = tensors

    def embed(self, prompts: Prompts) -> Tensor:
        return self._weight("model.embed_tokens")[prompts.tokens]

    def logits(self, h: Tensor) -> Tensor:
        head = "model.embed_tokens" if self.spec.tie_word_embeddings else "lm_head"
        return linear(self._norm(h, "model.norm"), self._weight(head))

    def input_norm(self, layer: int, h: Tensor) -> Tensor:
        return self._norm(h, f"model.layers.{layer}.input_layernorm")

    def post_norm(self, layer: int, h: Tensor) -> Tensor:
        return self._norm(h, f"model.layers.{layer}.post_attention_layernorm")

    def attention(self, layer: int, x: Tensor, prompts: Prompts) -> Tensor:
        """Of x [rows, hidden], the input norm's output, through o_proj."""
        spec, name = self.spec, f"model.layers.{layer}.self_attn"
        q = self._heads(f"{name}.q", x, spec.num_attention_heads, prompts.positions)
        k = self._heads(f"{name}.k", x, spec.num_key_value_heads, prompts.positions)
        v = linear(x, self._weight(f"{name}.v_proj")).view(-1, spec.num_key_value_heads, spec.head_dim)
        attended = scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k.transpose(0, 1)[None],
            v.transpose(0, 1)[None],
            attn_mask=prompts.mask,
            enable_gqa=True,
        )
        return linear(attended[0].transpose(0, 1).flatten(1), self._weight(f"{name}.o_proj"))

    def mlp(self, layer: int, y: Tensor) -> Tensor:
        name = f"model.layers.{layer}.mlp"
        gated = silu(linear(y, self._weight(f"{name}.gate_proj"))) * linear(y, self._weight(f"{name}.up_proj"))
        return linear(gated, self._weight(f"{name}.down_proj"))

    def _weight(self, name: str) -> Tensor:
        return self._tensors[f"{name}.weight"].float()

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], self._weight(name), self.spec.rms_norm_eps)

    def _heads(self, name: str, x: Tensor, heads: int, positions: Tensor) -> Tensor:
        """Queries or keys [rows, heads, head dim]: projected, normed where the model does, rotated (halves)."""
        spec = self.spec
        projected = linear(x, self._weight(f"{name}_proj")).view(-1, heads, spec.head_dim)
        if spec.architecture == "qwen3":
            projected = self._norm(projected, f"{name}_norm")
        frequencies = spec.rope_theta ** (-torch.arange(0, spec.head_dim, 2) / spec.head_dim)
        angles = (positions[:, None] * frequencies).float()[:, None, :]
        first, second = projected.chunk(2, dim=-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
