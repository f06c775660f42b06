"""A decoder's shape, read from a Hugging Face config.json: Llama and Qwen3, and FlexiDepth's variants of the two."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Architecture = Literal["llama", "qwen3"]

_BY_NAME: dict[str, Architecture] = {"LlamaForCausalLM": "llama", "Qwen3ForCausalLM": "qwen3"}
_BY_TYPE: dict[str, Architecture] = {"llama": "llama", "ddllama": "llama", "qwen3": "qwen3", "ddqwen3": "qwen3"}
_NOT_COMPUTED: dict[str, object] = {
    "attention_bias": False,
    "mlp_bias": False,
    "use_sliding_window": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
}
# what each rope type needs beside theta
ROPE_TYPES: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What the decoder's arithmetic depends on, and nothing else.

    rope_scaling: None for rope type default, else the type's parameters with the key `rope_type` (linear: factor;
    llama3: factor, low_freq_factor, high_freq_factor, original_max_position_embeddings).
    Raises ValueError for sizes that do not fit together and for what is not computed here.
    """

    architecture: Architecture
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    tie_word_embeddings: bool
    max_position_embeddings: int
    hidden_act: str = "silu"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_key_value_heads"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "a positive integer")
        groups_fit = self.num_attention_heads > 0 and self.num_attention_heads % self.num_key_value_heads == 0
        expected = f"a positive multiple of num_key_value_heads {self.num_key_value_heads}"
        _require(groups_fit, "num_attention_heads", self.num_attention_heads, expected)
        _require(self.head_dim > 0 and self.head_dim % 2 == 0, "head_dim", self.head_dim, "a positive even integer")
        _require(self.hidden_act == "silu", "hidden_act", self.hidden_act, "silu")
        _require(_positive(self.rms_norm_eps), "rms_norm_eps", self.rms_norm_eps, "a positive number")
        _require(isinstance(self.tie_word_embeddings, bool), "tie_word_embeddings", self.tie_word_embeddings, "a bool")
        _check_rope(self.rope_theta, self.rope_scaling or {"rope_type": "default"})

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> ModelConfig:
        """Read a config.json mapping, with `rope_theta` and `rope_scaling` or with `rope_parameters`.

        Raises ValueError that names the key, what it held and what is expected.
        """
        architecture = _architecture(config)
        for key, expected in _NOT_COMPUTED.items():
            _require(config.get(key) in (expected, None), key, config.get(key), expected)
        layer_types = config.get("layer_types") or []
        all_full = isinstance(layer_types, list) and all(kind == "full_attention" for kind in layer_types)
        _require(all_full, "layer_types", layer_types, "full_attention at every layer")
        theta, scaling = _rope(config)
        tied = config.get("tie_word_embeddings")
        heads = _need(config, "num_attention_heads")
        _require(heads > 0, "num_attention_heads", heads, "a positive integer")
        return cls(
            architecture=architecture,
            vocab_size=_need(config, "vocab_size"),
            hidden_size=_need(config, "hidden_size"),
            intermediate_size=_need(config, "intermediate_size"),
            num_hidden_layers=_need(config, "num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=_need(config, "num_key_value_heads", heads),
            head_dim=_need(config, "head_dim", _head_dim(architecture, _need(config, "hidden_size"), heads)),
            rms_norm_eps=config.get("rms_norm_eps", 1e-6),
            rope_theta=theta,
            rope_scaling=scaling,
            tie_word_embeddings=False if tied is None else tied,
            max_position_embeddings=_need(config, "max_position_embeddings"),
            hidden_act=config.get("hidden_act", "silu"),
        )


def _require(holds: bool, key: str, got: object, expected: object) -> None:
    if not holds:
        raise ValueError(f"model config, {key}: got {got!r}, expected {expected}")


def _check_rope(theta: float, scaling: Mapping[str, Any]) -> None:
    _require(_positive(theta), "rope_theta", theta, "a positive number")
    rope_type = scaling.get("rope_type")
    known = isinstance(rope_type, str) and rope_type in ROPE_TYPES
    _require(known, "rope_type", rope_type, f"one of {', '.join(ROPE_TYPES)}")
    for key in ROPE_TYPES[str(rope_type)]:
        value = scaling.get(key)
        _require(_positive(value), f"rope type {rope_type}, {key}", value, "a positive number")
    if rope_type == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        _require(low < high, "rope type llama3, high_freq_factor", high, f"more than low_freq_factor {low}")


def _positive(value: object) -> bool:
    """Whether it is a positive number that a float can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _need(config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"model config, {key}: got {value!r}, expected an integer")
    return value


def _architecture(config: Mapping[str, Any]) -> Architecture:
    names, model_type = config.get("architectures") or [], config.get("model_type")
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    _require(are_names, "architectures", names, "a list of names")
    _require(model_type is None or isinstance(model_type, str), "model_type", model_type, "a name")
    found = {_BY_NAME[name] for name in names if name in _BY_NAME}
    if not found and model_type in _BY_TYPE:
        found = {_BY_TYPE[model_type]}
    known = f"one of {', '.join(_BY_NAME)}, or a model_type of {', '.join(_BY_TYPE)}"
    _require(len(found) == 1, "architectures", f"{names} of model_type {model_type}", known)
    return found.pop()


def _head_dim(architecture: Architecture, hidden_size: int, heads: int) -> int:
    # a Qwen3 config without head_dim means 128, whatever the hidden size
    return 128 if architecture == "qwen3" else hidden_size // heads


def _rope(config: Mapping[str, Any]) -> tuple[float, Mapping[str, Any] | None]:
    """Theta and scaling from either spelling; the type may stand under `rope_type` or, in old files, `type`."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    _require(isinstance(given, Mapping), "rope_parameters", given, "an object")
    parameters = dict(given)
    theta = parameters.pop("rope_theta", None) or config.get("rope_theta") or 10000.0
    old_type = parameters.pop("type", "default")
    parameters.setdefault("rope_type", old_type)
    partial = parameters.pop("partial_rotary_factor", 1.0)
    _require(partial == 1.0, "partial_rotary_factor", partial, 1.0)
    _require(_positive(theta), "rope_theta", theta, "a positive number")
    return float(theta), None if parameters["rope_type"] == "default" else parameters
