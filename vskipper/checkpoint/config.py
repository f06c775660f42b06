"""A checkpoint's config.json: the decoder's shape, the gate mode and the routed layers it states, or an InputError."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from vskipper.errors import InputError
from vskipper.files import openable
from vskipper.policy import GateMode

Architecture = Literal["llama", "qwen3"]

_BY_CLASS: dict[str, Architecture] = {
    "LlamaForCausalLM": "llama",
    "DDLlamaForCausalLM": "llama",
    "Qwen3ForCausalLM": "qwen3",
    "DDQwen3ForCausalLM": "qwen3",
}
_BY_TYPE: dict[str, Architecture] = {"llama": "llama", "ddllama": "llama", "qwen3": "qwen3", "ddqwen3": "qwen3"}
_GATE_MODES = {"released": GateMode.WEIGHTED, "ste_hard": GateMode.HARD}
_UNSUPPORTED: dict[str, object] = {
    "attention_bias": False,
    "mlp_bias": False,
    "use_sliding_window": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
}
_ROPE_KEYS: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
# far beyond any decoder: a table of names and shapes is built from the number of layers before tensors are compared
_MAX_LAYERS = 10_000
_MAX_SIZE = 2**31 - 1
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
_SHORT.maxlist, _SHORT.maxlevel = 64, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What the decoder's arithmetic depends on. rope_scaling: None for rope type default, else its parameters with the
    key `rope_type` (linear or llama3)."""

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


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; raises InputError where it is missing, no file, cut short, or not an object."""
    openable(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("file is missing", where=path, got="no such file", expected=f"a {path.name}") from error
    except ValueError as error:
        raise InputError("file is not JSON", where=path, got=error, expected="a whole JSON object") from error
    except RecursionError as error:
        raise InputError("file is not JSON", where=path, got="nesting too deep", expected="a JSON object") from error
    except OSError as error:
        raise InputError("file cannot be read", where=path, got=error, expected="a readable file") from error
    if not isinstance(value, dict):
        raise InputError("file is not a JSON object", where=path, got=type(value).__name__, expected="an object")
    return value


def shown(value: object) -> str:
    """A value's repr on one line, cut where it is long or deep."""
    return _SHORT.repr(value)


def model_spec(config: Mapping[str, Any], where: Path) -> ModelSpec:
    """The shape in a config.json that was read from `where`; raises InputError that names the key."""
    keys = _Keys(config, where)
    architecture = _architecture(keys)
    for key, expected in _UNSUPPORTED.items():
        keys.require(config.get(key) in (expected, None), key, config.get(key), f"{expected}")
    for layer_type in keys.texts("layer_types"):
        keys.require(layer_type == "full_attention", "layer_types", layer_type, "full_attention at every layer")
    hidden, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    kv_heads = keys.size("num_key_value_heads", heads)
    keys.require(heads % kv_heads == 0, "num_attention_heads", heads, f"a multiple of {kv_heads} KV heads")
    # a Qwen3 config without head_dim means 128, whatever the hidden size
    head_dim = keys.size("head_dim", 128 if architecture == "qwen3" else hidden // heads)
    keys.require(head_dim % 2 == 0, "head_dim", head_dim, "an even integer")
    activation = config.get("hidden_act", "silu")
    keys.require(activation == "silu", "hidden_act", activation, "silu")
    theta, scaling = _rope(keys)
    return ModelSpec(
        architecture=architecture,
        vocab_size=keys.size("vocab_size"),
        hidden_size=hidden,
        intermediate_size=keys.size("intermediate_size"),
        num_hidden_layers=keys.size("num_hidden_layers", at_most=_MAX_LAYERS),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        rms_norm_eps=keys.positive("rms_norm_eps", config.get("rms_norm_eps", 1e-6)),
        rope_theta=theta,
        rope_scaling=scaling,
        tie_word_embeddings=keys.truth("tie_word_embeddings"),
        max_position_embeddings=keys.size("max_position_embeddings"),
    )


def stated_gate_mode(value: object, where: object) -> GateMode | None:
    """The gate mode that a `router_gate_mode` value names, None where it is absent; raises InputError for others."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in _GATE_MODES:
        expected = " or ".join(_GATE_MODES)
        raise InputError("unknown gate mode", where=f"{where}: router_gate_mode", got=shown(value), expected=expected)
    return _GATE_MODES[value]


def gate_mode_name(mode: GateMode) -> str:
    """The checkpoint's word for a gate mode: released or ste_hard."""
    return next(name for name, known in _GATE_MODES.items() if known == mode)


@dataclass(frozen=True, slots=True)
class _Keys:
    """A config's values, checked one by one."""

    config: Mapping[str, Any]
    where: Path

    def refuse(self, key: str, got: object, expected: object) -> NoReturn:
        raise InputError("unsupported model config", where=f"{self.where}: {key}", got=shown(got), expected=expected)

    def require(self, holds: bool, key: str, got: object, expected: object) -> None:
        if not holds:
            self.refuse(key, got, expected)

    def size(self, key: str, default: int | None = None, at_most: int = _MAX_SIZE) -> int:
        value = self.config.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= at_most:
            self.refuse(key, value, f"a positive integer of at most {at_most}")
        return value

    def truth(self, key: str) -> bool:
        value = self.config.get(key)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, value, "true or false")
        return bool(value)

    def texts(self, key: str) -> list[str]:
        value = self.config.get(key)
        value = [] if value is None else value
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self.refuse(key, value, "a list of strings")
        return value

    def table(self, key: str) -> dict[str, Any]:
        value = self.config.get(key)
        value = {} if value is None else value
        if not isinstance(value, dict):
            self.refuse(key, value, "an object")
        return value

    def positive(self, key: str, value: object) -> float:
        # NaN compares false; an integer may lie beyond every float
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= sys.float_info.max:
            self.refuse(key, value, "a positive, finite number")
        return float(value)


def _architecture(keys: _Keys) -> Architecture:
    names, model_type = keys.texts("architectures"), keys.config.get("model_type")
    keys.require(model_type is None or isinstance(model_type, str), "model_type", model_type, "a string")
    found = {_BY_CLASS[name] for name in names if name in _BY_CLASS}
    if model_type in _BY_TYPE:
        found.add(_BY_TYPE[model_type])
    known = f"one of {', '.join(_BY_CLASS)} or a model_type of {', '.join(_BY_TYPE)}"
    if len(found) != 1:
        keys.refuse("architectures, model_type", (names, model_type), known)
    return found.pop()


def _rope(keys: _Keys) -> tuple[float, Mapping[str, Any] | None]:
    """Theta and scaling in either spelling: rope_parameters, or rope_theta with rope_scaling."""
    parameters = dict(keys.table("rope_parameters") or keys.table("rope_scaling"))
    theta = keys.positive("rope_theta", parameters.pop("rope_theta", keys.config.get("rope_theta", 10000.0)))
    old_type = parameters.pop("type", "default")
    kind = parameters.setdefault("rope_type", old_type)
    if not isinstance(kind, str) or kind not in _ROPE_KEYS:
        keys.refuse("rope_type", kind, " or ".join(_ROPE_KEYS))
    partial = parameters.pop("partial_rotary_factor", 1.0)
    keys.require(partial == 1.0, "partial_rotary_factor", partial, 1.0)
    for key in _ROPE_KEYS[kind]:
        keys.positive(f"rope_parameters.{key}", parameters.get(key))
    if kind == "llama3":
        low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
        keys.require(low < high, "rope_parameters.high_freq_factor", high, f"more than low_freq_factor {low}")
    return theta, None if kind == "default" else parameters
