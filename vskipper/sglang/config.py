"""How the plugin is configured: one JSON object, in an environment variable or in a file that it names."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from vskipper.errors import InputError
from vskipper.files import openable

VARIABLE: Final = "VSKIPPER_CONFIG"
Mode = Literal["dense", "routed", "by-request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """policy: a name or package.module:Class. settings: its keyword arguments, as JSON values. delta: a file of router
    and projector tensors, or None for the checkpoint's own. routed_layers: which layers the policy decides at, or None
    for those of the router (the upper half of a model without one). mode: how requests run; by-request chooses
    prefill and decode mode of each from its id and seed. Raises InputError for a value of another kind."""

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    delta: str | None = None
    routed_layers: tuple[int, ...] | None = None
    mode: Mode = "routed"
    seed: int = 0

    def __post_init__(self) -> None:
        where = "plugin configuration"
        for name, holds, expected in (
            ("policy", isinstance(self.policy, str) and bool(self.policy), "a name or package.module:Class"),
            ("settings", isinstance(self.settings, Mapping), "an object"),
            ("delta", self.delta is None or isinstance(self.delta, str), "a file name or null"),
            ("routed_layers", _layers(self.routed_layers), "a list of layer numbers, ascending, or null"),
            ("mode", self.mode in get_args(Mode), ", ".join(get_args(Mode))),
            ("seed", type(self.seed) is int and 0 <= self.seed < 2**63, "an integer from 0 to 2^63 - 1"),
        ):
            if not holds:
                raise InputError(name, where=where, got=repr(getattr(self, name)), expected=expected)

    def to_json(self) -> str:
        """One line that parse() reads back."""
        return json.dumps(asdict(self) | {"settings": dict(self.settings)}, sort_keys=True)

    def environment(self) -> dict[str, str]:
        """The variable that configures the plugin in a process and its children."""
        return {VARIABLE: self.to_json()}


def parse(text: str, where: str) -> EngineConfig:
    """Read the JSON object; raises InputError for what is no JSON, an unknown key, or one that is missing."""
    return _of(read_object(text, where), where)


def _of(raw: Mapping[str, Any], where: str) -> EngineConfig:
    known = [item.name for item in fields(EngineConfig)]
    unknown = sorted(set(raw) - set(known))
    if unknown:
        raise InputError("unknown key", where=where, got=", ".join(unknown), expected=", ".join(known))
    if "policy" not in raw:
        raise InputError("policy", where=where, got="none", expected="a name or package.module:Class")
    layers = raw.get("routed_layers")
    try:
        return EngineConfig(**{**raw, "routed_layers": tuple(layers) if isinstance(layers, list) else layers})
    except InputError as error:
        raise InputError(error.what, where=where, got=error.got, expected=error.expected) from error


def read_object(text: str, where: str, what: str = "plugin configuration") -> dict[str, Any]:
    """A JSON object in which no key stands twice; raises InputError, of `what`, for anything else."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InputError(what, where=where, got=error, expected="a JSON object") from error
    if not isinstance(value, dict):
        raise InputError(what, where=where, got=type(value).__name__, expected="a JSON object")
    return value


def read_text(file: Path, what: str) -> str:
    """What a JSON file holds; raises InputError, of `what`, for one that cannot be read."""
    openable(file, "a readable JSON file")
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(what, where=file, got=error, expected="a readable JSON file") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    if twice:
        raise ValueError(f"{', '.join(twice)} twice in one object")
    return dict(pairs)


def from_environment(environment: Mapping[str, str] = os.environ) -> EngineConfig | None:
    """The configuration that VSKIPPER_CONFIG holds or names, None where it is not set or empty: the plugin is off."""
    found = read_variable(environment)
    return None if found is None else _of(*found)


def read_variable(environment: Mapping[str, str]) -> tuple[dict[str, Any], str] | None:
    """The object that VSKIPPER_CONFIG holds or names, and where it stands; None where it is not set or empty."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    if text.startswith("{"):
        return read_object(text, VARIABLE), VARIABLE
    return read_object(read_text(Path(text), VARIABLE), text), text


def _layers(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, tuple) or not value or not all(type(layer) is int and layer >= 0 for layer in value):
        return False
    return list(value) == sorted(set(value))
