"""Checks of a policy's settings: the value, or an InputError that names policy, setting and range."""

from __future__ import annotations

from collections.abc import Sequence

from vskipper.errors import InputError


def fraction(policy: str, name: str, value: float) -> float:
    """A number from 0 to 1, both included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        _refuse(policy, name, value, "a number from 0 to 1")
    return float(value)


def whole(policy: str, name: str, value: int, low: int, high: int) -> int:
    """An integer from low to high, both included."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        _refuse(policy, name, value, f"an integer from {low} to {high}")
    return value


def choice(policy: str, name: str, value: str, known: Sequence[str]) -> str:
    """One of the known words."""
    if value not in known:
        _refuse(policy, name, value, " or ".join(known))
    return value


def seed(policy: str, value: int) -> int:
    """A seed: an integer of 63 bits."""
    return whole(policy, "seed", value, 0, 2**63 - 1)


def _refuse(policy: str, name: str, value: object, expected: str) -> None:
    where = f"policy {policy}, setting {name}"
    raise InputError("setting cannot be used", where=where, got=repr(value), expected=expected)
