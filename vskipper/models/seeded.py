"""Random models in Hugging Face form, with a FlexiDepth delta: enough layers, heads and rows to go wrong in. The tiny
ones are made for a CPU, the small ones for what a GPU's kernels ask of a head and of a row of weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from vskipper.checkpoint.config import ModelSpec, model_spec
from vskipper.checkpoint.weights import SINGLE, model_shapes
from vskipper.models.delta import build_delta
from vskipper.models.store import ensure
from vskipper.policy import GateMode

SeededModel = Literal["tiny-llama", "tiny-qwen3", "small-llama", "small-qwen3"]

TINY_MODELS: tuple[SeededModel, ...] = ("tiny-llama", "tiny-qwen3")
SMALL_MODELS: tuple[SeededModel, ...] = ("small-llama", "small-qwen3")
SEEDED_MODELS = (*TINY_MODELS, *SMALL_MODELS)
ROUTED_LAYERS = (2, 3, 4)
DELTA = "flexidepth.safetensors"
_RECIPE = 5
_SEEDS: dict[SeededModel, int] = {"tiny-llama": 20, "tiny-qwen3": 21, "small-llama": 22, "small-qwen3": 23}
# hidden, intermediate, heads, KV heads, head dim, vocabulary. The last one's heads are those of models that are served:
# attention kernels are chosen by them
_SHAPES: dict[SeededModel, tuple[int, int, int, int, int, int]] = {
    "tiny-llama": (64, 128, 4, 2, 16, 128),
    "tiny-qwen3": (64, 128, 4, 2, 16, 128),
    "small-llama": (256, 512, 4, 2, 64, 512),
    "small-qwen3": (256, 512, 8, 2, 128, 512),
}


def build(kind: SeededModel, folder: Path, *, owned: bool = False) -> Path:
    """Fill `folder` with config.json, model.safetensors (float32, seeded) and flexidepth.safetensors; returns it.

    Llama models are of gate mode weighted, Qwen3 ones of hard: one of each, as the released checkpoints are.
    owned: replace whatever the folder holds. Raises InputError for a folder that is not owned and holds something else,
    or cannot be written.
    """
    return ensure(folder, f"{kind}/{_RECIPE}", lambda stage: _write(kind, stage), owned=owned)


def _write(kind: SeededModel, folder: Path) -> None:
    config = _config(kind)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tensors = _tensors(model_spec(config, folder), _SEEDS[kind], std=0.1 if kind in SMALL_MODELS else 0.2)
    save_file(tensors, folder / SINGLE, {"format": "pt"})
    gate_mode = GateMode.HARD if kind.endswith("qwen3") else GateMode.WEIGHTED
    build_delta(folder, ROUTED_LAYERS, folder / DELTA, seed=_SEEDS[kind], gate_mode=gate_mode)


def _config(kind: SeededModel) -> dict[str, Any]:
    qwen3 = kind.endswith("qwen3")
    hidden, intermediate, heads, kv_heads, head_dim, vocabulary = _SHAPES[kind]
    return {
        "architectures": ["Qwen3ForCausalLM" if qwen3 else "LlamaForCausalLM"],
        "model_type": "qwen3" if qwen3 else "llama",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": 6,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": qwen3,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "torch_dtype": "float32",
    }


def _tensors(spec: ModelSpec, seed: int, *, std: float) -> dict[str, Tensor]:
    """Matrices of mean 0, norm weights of mean 1, one standard deviation for both."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}
    for name, shape in model_shapes(spec).items():
        noise = torch.randn(shape, generator=generator) * std
        tensors[name] = noise + 1.0 if len(shape) == 1 else noise
    return tensors
