"""What is typed, made into values: each option refuses what it cannot be in the words of every other refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import typer

from vskipper.errors import InputError

MOST_SEED: Final = 2**63 - 1


def whole(low: int, high: int) -> Callable[[typer.CallbackParam, str | None], int | None]:
    """Callback of an option, parsed as str, that is an integer from low to high, both included."""

    def number(param: typer.CallbackParam, value: str | None) -> int | None:
        if value is None:
            return None
        # Python reads "1_0" and " 1" too, and refuses thousands of digits
        plain = value.removeprefix("-")
        if plain.isascii() and plain.isdecimal() and len(plain) <= len(str(high)) and low <= int(value) <= high:
            return int(value)
        expected = f"an integer from {low} to {high}"
        raise InputError("number", where=_name(param), got=_shown(value), expected=expected)

    return number


def filled(param: typer.CallbackParam, value: str | None) -> str | None:
    """Callback of an option whose value may be left out, but not empty."""
    if value is not None and not value.strip():
        raise InputError("no value", where=_name(param), got=repr(value), expected=param.metavar or "a name")
    return value


def policy_name(param: typer.CallbackParam, value: str | None) -> str | None:
    """As filled(), for a policy: a name, or the two parts that a class is found by."""
    given = filled(param, value)
    module, colon, name = (given or "").partition(":")
    if colon and not all(part.strip() for part in (*module.split("."), *name.split("."))):
        expected = "a policy's name, or package.module:Class"
        raise InputError("policy", where=_name(param), got=_shown(value or ""), expected=expected)
    return given


def filled_path(param: typer.CallbackParam, value: str | None) -> Path | None:
    """As filled(), for an option, parsed as str, that is a path: an empty one would be the current folder."""
    given = filled(param, value)
    return None if given is None else Path(given)


def _name(param: typer.CallbackParam) -> str:
    """As it is typed."""
    return next((name for name in param.opts if name.startswith("--")), (param.metavar or param.opts[0]))


def _shown(value: str) -> str:
    cut = value if len(value) <= 40 else f"{value[:40]}..."
    return repr(cut) if not cut.strip() or not cut.isprintable() else cut
