"""What the oracle cannot run it refuses with the place, what it got and what it expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from reference.config import ModelConfig
from reference.model import ReferenceModel
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from reference.pool import PagedPool
from reference.weights import expected_shapes

HF: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 11,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def test_config_reads_both_spellings_of_rope() -> None:
    old = ModelConfig.from_hf(HF | {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}})
    new = ModelConfig.from_hf(HF | {"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}})
    assert old == new
    assert old.rope_theta == 5e5 and old.rope_scaling == {"rope_type": "linear", "factor": 2.0}
    plain = ModelConfig.from_hf(HF | {"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}})
    assert plain.rope_scaling is None and plain.rope_theta == 7.0 and plain.head_dim == 2
    assert ModelConfig.from_hf(HF | {"rope_scaling": None}).rope_theta == 10000.0


@pytest.mark.parametrize(
    ("architectures", "model_type", "expected"),
    [
        (["LlamaForCausalLM"], "llama", "llama"),
        (["DDLlamaForCausalLM"], "ddllama", "llama"),
        (["Qwen3ForCausalLM"], "qwen3", "qwen3"),
        (None, "ddqwen3", "qwen3"),
    ],
)
def test_config_knows_flexidepths_model_types(architectures: object, model_type: str, expected: str) -> None:
    config = ModelConfig.from_hf(HF | {"architectures": architectures, "model_type": model_type, "head_dim": 2})
    assert config.architecture == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["MistralForCausalLM"], "model_type": "mistral"}, "architectures: got .*Mistral.*expected"),
        ({"num_key_value_heads": 3}, "num_attention_heads: got 4, expected a positive multiple"),
        ({"head_dim": 3}, "head_dim: got 3, expected a positive even"),
        ({"hidden_size": None}, "hidden_size: got None, expected an integer"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: got 0, expected a positive"),
        ({"hidden_act": "gelu"}, "hidden_act: got 'gelu', expected silu"),
        ({"attention_bias": True}, "attention_bias: got True, expected False"),
        ({"use_sliding_window": True}, "use_sliding_window: got True"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types: got .*sliding"),
        ({"quantization_config": {"bits": 4}}, "quantization_config: got .*bits"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type: got 'dynamic', expected one of default"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope_type: got 'yarn'"),
        ({"rope_parameters": {"rope_type": "linear"}}, "linear, factor: got None, expected a positive number"),
        ({"rope_scaling": LLAMA3}, "llama3, original_max_position_embeddings: got None"),
        ({"rope_theta": -1.0}, "rope_theta: got -1.0"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor: got 0.5"),
        ({"architectures": [["x"]]}, r"architectures: got \[\['x'\]\]"),
        ({"architectures": 5}, "architectures: got 5"),
        ({"model_type": []}, r"model_type: got \[\], expected a name"),
        ({"num_key_value_heads": "x"}, "num_key_value_heads: got 'x', expected an integer"),
        ({"num_attention_heads": 0}, "num_attention_heads: got 0, expected a positive integer"),
        ({"head_dim": [1]}, r"head_dim: got \[1\], expected an integer"),
        ({"layer_types": 5}, "layer_types: got 5"),
        ({"layer_types": [1, "a"]}, r"layer_types: got \[1, 'a'\]"),
        ({"rope_parameters": "x"}, "rope_parameters: got 'x', expected an object"),
        ({"rope_scaling": {"rope_type": ["linear"]}}, r"rope_type: got \['linear'\]"),
        ({"rope_theta": 10**400}, "rope_theta: got 1000"),
        ({"rope_theta": float("nan")}, "rope_theta: got nan"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps: got inf"),
        ({"rms_norm_eps": "x"}, "rms_norm_eps: got 'x'"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: got 'no'"),
        (
            {"rope_scaling": LLAMA3 | {"original_max_position_embeddings": 64, "low_freq_factor": 4.0}},
            "high_freq_factor: got 4.0, expected more than low_freq_factor 4.0",
        ),
    ],
)
def test_config_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_hf(HF | change)


CONFIG = ModelConfig.from_hf(HF)
LAYOUT = PoolLayout(page_size=2, pages=4)
CHUNK = Chunk(request="r", tokens=(1, 2, 3), start=0, pages=(1, 2), phase="prefill")


def tensors() -> dict[str, Tensor]:
    return {name: torch.ones(shape) for name, shape in expected_shapes(CONFIG).items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"page_size": 3}, "page_size: got 3, expected a power of two"),
        ({"page_size": 0}, "page_size: got 0"),
        ({"pages": 0}, "pages: got 0"),
        ({"kv_dtype": "float7"}, "kv_dtype: got 'float7'"),
        ({"kv_dtype": "int8"}, "kv_dtype: got 'int8'"),
        ({"v_scale": 0.0}, "v_scale: got 0.0, expected a positive number"),
    ],
)
def test_pool_refuses(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PagedPool(CONFIG, replace(LAYOUT, **change), torch.float32)


def test_pool_refuses_a_slot_it_does_not_have() -> None:
    with pytest.raises(ValueError, match="slot: got 8, expected 0 to 7"):
        PagedPool(CONFIG, LAYOUT, torch.float32).write(0, 8, torch.ones(2, 2), torch.ones(2, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": ()}, "tokens: got .*expected at least one"),
        ({"tokens": (1, 11)}, "position 1, token: got 11, expected 0 to 10"),
        ({"phase": "decode"}, "tokens of a decode chunk: got"),
        ({"start": -1}, "start: got -1"),
        ({"pages": (1,)}, "pages: got .*expected 2 or more, to hold 3 positions"),
        ({"pages": (1, 4)}, "expected numbers of 1 to 3"),
        ({"pages": (0, 1)}, "expected numbers of 1 to 3"),
        ({"pages": (1, 1)}, "expected each page once"),
    ],
)
def test_plan_refuses(change: dict[str, Any], message: str) -> None:
    model = ReferenceModel(CONFIG, tensors(), (), dtype=torch.float32)
    with pytest.raises(ValueError, match=message):
        model.step(PagedPool(CONFIG, LAYOUT, torch.float32), StepPlan(chunks=(replace(CHUNK, **change),)))


def test_plan_refuses_zero_rows_and_two_owners_of_a_slot() -> None:
    model = ReferenceModel(CONFIG, tensors(), (), dtype=torch.float32)
    pool = PagedPool(CONFIG, LAYOUT, torch.float32)
    with pytest.raises(ValueError, match="no valid row, expected at least one"):
        model.step(pool, StepPlan(chunks=(), padding=2))
    with pytest.raises(ValueError, match="slot 2: got two owners, r at 0 and s at 0"):
        model.step(pool, StepPlan(chunks=(CHUNK, replace(CHUNK, request="s"))))


def mixed_weights(layer: int, x: Tensor) -> tuple[list[int], Tensor | None]:
    return [3, 3, 3], torch.ones(3) if layer == 1 else None


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        (TapePlan(actions=((3, 3, 3),)), r"actions: got lines of \[3\], expected 2 lines of 3"),
        (TapePlan(actions=((3, 3), (3, 3, 3))), r"actions: got lines of \[2, 3\]"),
        (TapePlan(actions=((3, 3, 4),) * 2), "layer 1, actions: got .*4.*expected 3 codes"),
        (TapePlan(actions=((3,) * 3,) * 2, eighths=((8,) * 3,)), "eighths: got lines of"),
        (TapePlan(actions=((3,) * 3,) * 2, eighths=((9,) * 3,) * 2), "eighths: got .*expected integers 0 to 8"),
        (lambda layer, x: ([3], None), r"layer 1, actions: got \[3\]"),
        (lambda layer, x: ([3] * 3, torch.ones(3, 1)), r"weights: got torch.float32 \(3, 1\)"),
        (lambda layer, x: ([3] * 3, torch.ones(3).double()), "weights: got torch.float64"),
        (mixed_weights, "weights: got them at 1 routed layers, expected all 2 or none"),
    ],
)
def test_routes_refused(routes: TapePlan | Callable[..., Any], message: str) -> None:
    model = ReferenceModel(CONFIG, tensors(), (1, 2), dtype=torch.float32)
    with pytest.raises(ValueError, match=message):
        model.step(PagedPool(CONFIG, LAYOUT, torch.float32), StepPlan(chunks=(CHUNK,)), routes)


@pytest.mark.parametrize("routed", [(3,), (1, 0), (1, 1), (-1,)])
def test_model_refuses_routed_layers_it_does_not_have(routed: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"routed layers: got .*expected ascending layer numbers of 0 to 2"):
        ReferenceModel(CONFIG, tensors(), routed, dtype=torch.float32)


def test_model_refuses_missing_and_misshaped_tensors() -> None:
    given = tensors()
    with pytest.raises(ValueError, match=r"lm_head.weight: got nothing, expected \(11, 8\)"):
        ReferenceModel(CONFIG, {k: v for k, v in given.items() if k != "lm_head.weight"}, (), dtype=torch.float32)
    given["model.layers.2.mlp.up_proj.weight"] = torch.ones(8, 12)
    with pytest.raises(ValueError, match=r"layers.2.mlp.up_proj.weight: got \(8, 12\), expected \(12, 8\)"):
        ReferenceModel(CONFIG, given, (), dtype=torch.float32)
