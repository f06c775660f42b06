"""The decoder's tensors by Hugging Face name: which ones it needs, in which shape, cast once to one dtype."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from reference.config import ModelConfig


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of the dense model. Tied embeddings have no lm_head of their own."""
    d, vocab = config.hidden_size, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,)}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (vocab, d)
    for layer in range(config.num_hidden_layers):
        for name, shape in _layer_shapes(config).items():
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    return shapes


def _layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    d, m, head = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_attention_heads * head, config.num_key_value_heads * head
    shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm": (d,),
        "self_attn.q_proj": (q, d),
        "self_attn.k_proj": (kv, d),
        "self_attn.v_proj": (kv, d),
        "self_attn.o_proj": (d, q),
        "post_attention_layernorm": (d,),
        "mlp.gate_proj": (m, d),
        "mlp.up_proj": (m, d),
        "mlp.down_proj": (d, m),
    }
    if config.architecture == "qwen3":
        shapes |= {"self_attn.q_norm": (head,), "self_attn.k_norm": (head,)}
    return shapes


def load(config: ModelConfig, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The needed tensors in `dtype`; others are left out. Raises ValueError for a missing or misshaped one."""
    loaded: dict[str, Tensor] = {}
    for name, shape in expected_shapes(config).items():
        got = tuple(tensors[name].shape) if name in tensors else "nothing"
        if got != shape:
            raise ValueError(f"model tensors, {name}: got {got}, expected {shape}")
        loaded[name] = tensors[name].detach().to(dtype)
    return loaded
