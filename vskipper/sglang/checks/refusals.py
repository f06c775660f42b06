"""Refuses, before a scheduler is started and weights are read, what vSkipper would serve wrongly (clause IN-1)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from vskipper.checkpoint.config import shown
from vskipper.errors import InputError
from vskipper.sglang.checks.table import ARCHITECTURES, QUANTISATION_KEYS, REFUSALS, REFUSED_VARIABLES, Refusal


def refuse_unsupported(server_args: Any, model_config: Mapping[str, Any]) -> None:
    """`server_args`: SGLang's arguments, resolved. `model_config`: the model's config.json with the user's overrides.
    Raises InputError that names the argument, the variable or the key of config.json."""
    # first: what SGLang resolves from config.json would else be blamed on an argument that nobody gave
    refuse_model(model_config)
    refuse_arguments(server_args)


def refuse_arguments(server_args: Any) -> None:
    """The arguments alone, also before they are resolved; raises InputError for the first that asks for too much."""
    for row in REFUSALS:
        refuse_value(row, getattr(server_args, row.attribute, None))
    refuse_variables()


def refuse_value(row: Refusal, value: Any) -> None:
    """Raises InputError where this value of the row's argument asks for what this SGLang does not make safe."""
    if row.is_on(value) and not (row.allowed and row.allowed()):
        got = "on" if value is True else value if isinstance(value, str | int | float) else shown(value)
        raise InputError(f"{row.feature} is not supported", where=row.argument, got=got, expected=row.expected)


def refuse_variables() -> None:
    """Switches that only the environment has. SGLang's own reading counts; a version without the switch ignores it."""
    known = import_module("sglang.srt.environ").envs
    for variable, feature in REFUSED_VARIABLES.items():
        switch = getattr(known, variable, None)
        if switch is not None and switch.get():
            raise InputError(f"{feature} is not supported", where=variable, got="on", expected="not set")


def refuse_model(config: Mapping[str, Any]) -> None:
    """Models other than dense, unquantised Llama and Qwen3 with full attention at every layer."""
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures or architectures[0] not in ARCHITECTURES:
        _refuse("model", "architectures", architectures, " or ".join(ARCHITECTURES))
    for key in QUANTISATION_KEYS:
        if config.get(key):
            _refuse("quantisation of the base weights", key, config[key], "none")
    window = config.get("sliding_window")
    if config.get("use_sliding_window", window is not None):
        _refuse("sliding-window attention", "sliding_window", window, "full attention at every layer")
    kinds = config.get("layer_types") or []
    if any(kind != "full_attention" for kind in kinds):
        _refuse("a hybrid model", "layer_types", kinds, "full_attention at every layer")


def _refuse(feature: str, key: str, got: object, expected: str) -> None:
    raise InputError(f"{feature} is not supported", where=f"config.json: {key}", got=shown(got), expected=expected)
