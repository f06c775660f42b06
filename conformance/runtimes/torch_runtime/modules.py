"""Decoder modules built from a model's tensors, in the form the executor takes them apart (LayerModules)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from conformance.runtimes.torch_runtime.rope import inverse_frequencies, rotate
from properties.runtime import Model
from reference.config import ModelConfig
from vskipper.policy import SwiGLU


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Variance in float32 (float64 for float64), normalised, cast to the input's dtype, then times the weight."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    normalised = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return normalised.to(x.dtype) * weight


class TorchLayer:
    """LayerModules over plain tensors. q, k and v come from one product, as in serving engines."""

    def __init__(self, model: Model, number: int) -> None:
        self.config: ModelConfig = model.config
        self._frequencies = inverse_frequencies(model.config)
        self.weights = weights = _layer_tensors(model, number)
        self._qkv = torch.cat([weights[f"self_attn.{name}_proj.weight"] for name in "qkv"])
        self.mlp_weights = SwiGLU(
            w_in=torch.cat([weights["mlp.gate_proj.weight"], weights["mlp.up_proj.weight"]]),
            w_out=weights["mlp.down_proj.weight"],
        )

    @property
    def hidden_size(self) -> int:
        return self.config.hidden_size

    def input_norm(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        h = hidden if residual is None else hidden + residual
        return rms_norm(h, self.weights["input_layernorm.weight"], self.config.rms_norm_eps), h

    def post_norm(self, hidden: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        h1 = hidden + residual
        return rms_norm(h1, self.weights["post_attention_layernorm.weight"], self.config.rms_norm_eps), h1

    def qkv(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        packed = F.linear(x, self._qkv).view(x.shape[0], heads + 2 * kv_heads, config.head_dim)
        q, k, v = torch.split(packed, [heads, kv_heads, kv_heads], dim=1)
        if config.architecture == "qwen3":
            q = rms_norm(q, self.weights["self_attn.q_norm.weight"], config.rms_norm_eps)
            k = rms_norm(k, self.weights["self_attn.k_norm.weight"], config.rms_norm_eps)
        return rotate(q, positions, self._frequencies), rotate(k, positions, self._frequencies), v

    def o_proj(self, attention: Tensor) -> Tensor:
        return F.linear(attention, self.weights["self_attn.o_proj.weight"])

    def mlp(self, y: Tensor) -> Tensor:
        gate, up = F.linear(y, self.mlp_weights.w_in).chunk(2, -1)
        return F.linear(F.silu(gate) * up, self.mlp_weights.w_out)


class TorchModules:
    """The whole decoder: embedding, layers, final norm, head."""

    def __init__(self, model: Model) -> None:
        self._config, dtype = model.config, model.dtype
        self.embedding = model.tensors["model.embed_tokens.weight"].to(dtype)
        self.layers = tuple(TorchLayer(model, number) for number in range(model.config.num_hidden_layers))
        self._norm = model.tensors["model.norm.weight"].to(dtype)
        tied = model.config.tie_word_embeddings
        self._head = self.embedding if tied else model.tensors["lm_head.weight"].to(dtype)

    def logits(self, h: Tensor) -> Tensor:
        """h [n, hidden] of the rows that are sampled to [n, vocab]."""
        return F.linear(rms_norm(h, self._norm, self._config.rms_norm_eps), self._head)


def _layer_tensors(model: Model, number: int) -> dict[str, Tensor]:
    prefix = f"model.layers.{number}."
    return {
        name.removeprefix(prefix): tensor.to(model.dtype)
        for name, tensor in model.tensors.items()
        if name.startswith(prefix) and ".router" not in name
    }
