"""A case as one short string and back, so that a failure's command line carries its own input.

Text is `v1.` and base64url of zlib of JSON; a dataclass becomes {name: [value, ...]}, a tuple a list.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from vskipper.errors import InputError

VERSION = "v1"
_LIMIT = 1 << 20
T = TypeVar("T")
_TYPES: dict[str, type[Any]] = {}


def case_type(cls: type[T]) -> type[T]:
    """Class decorator: make the dataclass known by its name. A name taken by another class is an error."""
    if not is_dataclass(cls) or _TYPES.get(cls.__name__, cls) is not cls:
        raise TypeError(f"case type {cls.__name__}: expected a dataclass with a name of its own")
    _TYPES[cls.__name__] = cls
    return cls


def encode(case: object) -> str:
    """The text of a case made of registered dataclasses, tuples, integers, floats, booleans, strings and None."""
    text = json.dumps(_plain(case), separators=(",", ":"), allow_nan=False)
    packed = base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")
    return f"{VERSION}.{packed}"


def decode(text: str) -> Any:
    """The case of a text; raises InputError for another version and for text that no encode() wrote."""
    version, _, packed = text.strip().partition(".")
    if version != VERSION:
        raise InputError("case text", where="version", got=version or "nothing", expected=VERSION)
    try:
        raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        unpacker = zlib.decompressobj()
        plain = json.loads(unpacker.decompress(raw, _LIMIT))
        return _case(plain)
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError) as error:
        got = f"{type(error).__name__}: {error}"
        raise InputError("case text", where="content", got=got, expected="the text of one case") from error


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if _TYPES.get(name) is not type(value):
            raise TypeError(f"case codec: got {name}, expected a registered case type")
        return {name: [_plain(getattr(value, field.name)) for field in fields(value)]}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"case codec: got {type(value).__name__}, expected a case type, tuple, number, string or None")


def _case(plain: object) -> Any:
    if isinstance(plain, list):
        return tuple(_case(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    ((name, values),) = plain.items()
    names = [field.name for field in fields(_TYPES[name])]
    if len(names) != len(values):
        raise ValueError(f"{name}: got {len(values)} fields, expected {len(names)}")
    return _TYPES[name](**dict(zip(names, map(_case, values), strict=True)))
