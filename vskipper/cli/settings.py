"""`--set KEY=VALUE`, made into a policy's settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from vskipper.errors import InputError

MOST_NESTED: Final = 16


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Every `--set` as one mapping; raises InputError for a key that is given twice."""
    settings: dict[str, Any] = {}
    for text in texts:
        key, value = parse_setting(text)
        if key in settings:
            raise InputError("setting", where="--set", got=f"{key} twice", expected="each key once")
        settings[key] = value
    return settings


def parse_setting(text: str) -> tuple[str, Any]:
    """`r=0.5` to ("r", 0.5): the value is read as JSON where it is JSON, else as the text it is. Raises InputError for
    what a certificate, which is strict JSON, could not hold."""
    key, equals, value = text.partition("=")
    if not (key.isidentifier() and equals):
        raise InputError("setting", where="--set", got=text, expected="KEY=VALUE")
    parsed = _parsed(key, value)
    try:
        json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        expected = "finite numbers and text that is Unicode"
        raise InputError("setting", where=f"--set {key}", got=ascii(value[:40]), expected=expected) from error
    return key, parsed


def _parsed(key: str, value: str) -> Any:
    try:
        parsed = json.loads(value)
        deep = _depth(parsed) > MOST_NESTED
    except RecursionError:
        deep = True
    except ValueError:
        return value
    if deep:
        got, expected = f"{value[:20]}...", f"JSON nested at most {MOST_NESTED} deep"
        raise InputError("setting", where=f"--set {key}", got=got, expected=expected)
    return parsed


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)
