"""One configuration out of what was typed, a file and the environment: each key once, or twice alike."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from vskipper.errors import InputError
from vskipper.models import KNOWN, default_delta
from vskipper.sglang.config import VARIABLE, EngineConfig, parse, read_object, read_text, read_variable

OPTIONS: Final = "the options"
_SETTING: Final = "settings."


def engine_config(
    model: str, options: Mapping[str, Any], file: Path | None, environment: Mapping[str, str] = os.environ
) -> EngineConfig:
    """`options`: those that were given, by EngineConfig's names. Where nothing names a delta, one beside the model's
    weights is taken, as `vskipper certify` does. Raises InputError for a key that two sources set differently."""
    sources = [(OPTIONS, dict(options))]
    if file is not None:
        sources.append((str(file), read_object(read_text(file, "configuration"), str(file))))
    inherited = read_variable(environment)
    if inherited is not None:
        sources.append((VARIABLE, inherited[0]))
    merged = merge(sources)
    if "delta" not in merged and (model in KNOWN or Path(model).is_dir()):
        beside = default_delta(model)
        merged |= {} if beside is None else {"delta": str(beside)}
    return parse(json.dumps(merged), ", ".join(name for name, source in sources if source) or OPTIONS)


def merge(sources: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """All keys of all (origin, source), a policy's setting being a key; raises InputError where two differ."""
    found: dict[str, tuple[str, Any]] = {}
    for origin, source in sources:
        for key, value in _flat(source, origin).items():
            before, known = found.setdefault(key, (origin, value))
            if json.dumps(known, sort_keys=True) != json.dumps(value, sort_keys=True):
                got = f"{known!r} in {before}, {value!r} in {origin}"
                raise InputError("a key is given twice", where=key, got=got, expected="one value")
    merged: dict[str, Any] = {key: value for key, (_, value) in found.items() if not key.startswith(_SETTING)}
    settings = {key: value for key, (_, value) in found.items() if key.startswith(_SETTING)}
    return merged | ({"settings": {key.removeprefix(_SETTING): settings[key] for key in settings}} if settings else {})


def _flat(source: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A setting under `settings.NAME`."""
    settings = source.get("settings", {})
    if not isinstance(settings, Mapping):
        raise InputError("settings", where=origin, got=repr(settings), expected="an object")
    dotted = sorted(key for key in source if key.startswith(_SETTING))
    if dotted:
        raise InputError("unknown key", where=origin, got=", ".join(dotted), expected="an object under settings")
    others = {key: value for key, value in source.items() if key != "settings"}
    return others | {f"{_SETTING}{name}": value for name, value in settings.items()}
