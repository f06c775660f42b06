"""Tiny random Llama and Qwen3 models from Hugging Face transformers, and their own account of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

SHAPE: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "attn_implementation": "eager",
}
# at head_dim 16 and theta 10000 these bounds keep one frequency, interpolate two and slow the others down
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 5000.0, "factor": 3.0}
BUILDERS: dict[str, Callable[[], PreTrainedModel]] = {
    "llama-gqa": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, rms_norm_eps=1e-5, tie_word_embeddings=False)),
    "llama3-rope": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=LLAMA3_ROPE)),
    "linear-rope": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=LINEAR_ROPE)),
    "qwen3-tied": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=24, tie_word_embeddings=True)),
}


class Float64Throughout(TorchFunctionMode):
    """Runs transformers' own code in float64: its norms, softmax and rotary angles ask for float32 by name."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func is Tensor.float:
            return args[0].double()
        widened = [torch.float64 if arg is torch.float32 else arg for arg in args]
        named = {key: torch.float64 if arg is torch.float32 else arg for key, arg in (kwargs or {}).items()}
        return func(*widened, **named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What transformers computes for one sequence: logits [n, vocab], hidden [layers, n, hidden] entering each layer,
    keys and values [layers, n, kv_heads, head_dim]."""

    logits: Tensor
    hidden: Tensor
    keys: Tensor
    values: Tensor


def build(name: str, dtype: torch.dtype) -> PreTrainedModel:
    """A model with every tensor random, norm weights too, so that none can be left out unseen."""
    torch.manual_seed(0)
    if dtype == torch.float64:
        with Float64Throughout():
            model = BUILDERS[name]()
    else:
        model = BUILDERS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            parameter.copy_(1 + 0.3 * noise if parameter.dim() == 1 else 0.2 * noise)
    return model.to(dtype).eval()


@torch.no_grad()
def account(model: PreTrainedModel, tokens: Sequence[int]) -> Account:
    """Run the whole sequence in one pass."""
    ids = torch.tensor([list(tokens)])
    if model.dtype == torch.float64:
        with Float64Throughout():
            out = model(ids, use_cache=True, output_hidden_states=True)
    else:
        out = model(ids, use_cache=True, output_hidden_states=True)
    layers = out.past_key_values.layers
    return Account(
        logits=out.logits[0],
        hidden=torch.stack([h[0] for h in out.hidden_states[:-1]]),
        keys=torch.stack([layer.keys[0].transpose(0, 1) for layer in layers]),
        values=torch.stack([layer.values[0].transpose(0, 1) for layer in layers]),
    )
