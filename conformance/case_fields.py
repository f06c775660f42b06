"""Whether a decoded case is made of what its class declares: the text of a case may come from anywhere."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

# of integers that any kernel, seed or pool takes
BITS = 64


def misfit(value: Any, declared: Any, place: str) -> str | None:
    """The first field that holds something else than declared, in words; None where all fit."""
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        found = [misfit(value, each, place) for each in inner]
        return None if None in found else found[0]
    if origin is Literal:
        return None if value in inner else _words(place, value)
    if origin is tuple:
        return _misfit_of_items(value, inner, place)
    if is_dataclass(declared):
        return _misfit_of_fields(value, declared, place)
    if isinstance(value, int) and value.bit_length() >= BITS:
        return f"{place}: an integer of {value.bit_length()} bits"
    fits = type(value) is declared or (declared is float and type(value) is int)
    return None if fits else _words(place, value)


def _misfit_of_items(value: Any, inner: tuple[Any, ...], place: str) -> str | None:
    if not isinstance(value, tuple):
        return _words(place, value)
    each = inner[:1] * len(value) if inner[-1:] == (...,) else inner
    if len(each) != len(value):
        return f"{place}: {len(value)} items"
    found = (misfit(item, hint, f"{place}[{i}]") for i, (item, hint) in enumerate(zip(value, each, strict=True)))
    return next((words for words in found if words is not None), None)


def _misfit_of_fields(value: Any, declared: Any, place: str) -> str | None:
    if type(value) is not declared:
        return _words(place, value)
    hints = get_type_hints(declared)
    names = [field.name for field in fields(declared)]
    found = (misfit(getattr(value, name), hints[name], f"{place}.{name}") for name in names)
    return next((words for words in found if words is not None), None)


def _words(place: str, value: Any) -> str:
    return f"{place}: a {type(value).__name__}"
