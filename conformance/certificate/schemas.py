"""The JSON of a certificate: parsed strictly, and held against the packaged schemas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.protocols import Validator

FOLDER: Final = Path(__file__).parent / "schema"


class Damaged(Exception):
    """A record that cannot be read; the message says where and why, in one line."""


def _pattern(_: Validator, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    # the standard's search lets a line end follow the `$`
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


# 1.0 is no integer here: what reads the records afterwards tells them apart
STRICT: Final[type[Validator]] = validators.extend(
    Draft202012Validator,
    validators={"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)


def parse(text: str, where: str) -> Any:
    """Strict JSON: no NaN, no infinity however spelt, no key twice. Raises Damaged."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where}: not JSON: {error}") from error


def valid(raw: Any, schema: str, where: str) -> Any:
    """`raw` itself, when `<schema>.schema.json` admits it. Raises Damaged."""
    errors = sorted(_validator(schema).iter_errors(raw), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        place = ".".join(str(part) for part in errors[0].absolute_path) or "top"
        # a schema message may quote a whole value
        raise Damaged(f"{where}, {place}: {' '.join(errors[0].message.split())[:200]}")
    return raw


@cache
def _validator(schema: str) -> Validator:
    return STRICT(json.loads((FOLDER / f"{schema}.schema.json").read_text(encoding="utf-8")))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    raw = dict(pairs)
    if len(raw) != len(pairs):
        raise ValueError("a key stands twice")
    return raw


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is not finite")
    return value
