"""The word of a failing case, unpacked and checked before anything heavy is imported: it may come from anywhere."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from conformance.certificate.schemas import Damaged, parse, valid
from conformance.must_pass import available_levels, load_must_pass
from conformance.runtime_names import check_runtime
from vskipper.errors import InputError

VERSION: Final = "r1"
# many times what the largest case takes
LIMIT: Final = 1 << 20
WHERE: Final = "BLOB"


def pack(raw: Mapping[str, Any]) -> str:
    packed = zlib.compress(json.dumps(raw, sort_keys=True).encode(), 9)
    return f"{VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def unpack(text: str) -> dict[str, Any]:
    """What the schema `replay` admits, with a property, a runtime and a fault that this suite has. Raises InputError
    for anything that pack() did not make."""
    version, _, body = text.strip().partition(".")
    if version != VERSION or not body:
        raise InputError("not a replay word", where=WHERE, got=repr(text[:20]), expected=f"one that begins {VERSION}.")
    try:
        raw: dict[str, Any] = valid(parse(_inflated(body), "content"), "replay", "content")
    except (binascii.Error, zlib.error, ValueError, Damaged) as error:
        raise InputError("damaged replay word", where=WHERE, got=error, expected="the whole word") from error
    lists = [load_must_pass(level) for level in available_levels()]
    _check("property", raw["property"], [need.property for each in lists for need in each.requirements])
    if raw["fault"] is not None:
        _check("fault", raw["fault"], [seeded.fault for each in lists for seeded in each.faults])
    check_runtime(raw["spec"]["runtime"], f"runtime of {WHERE}")
    return raw


def _inflated(body: str) -> str:
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), LIMIT)
    if unpacker.unconsumed_tail:
        raise ValueError(f"more than {LIMIT} bytes")
    if not unpacker.eof:
        raise ValueError("an end that is missing")
    return content.decode()


def _check(kind: str, got: str, known: list[str]) -> None:
    if got not in known:
        alike = ", ".join(get_close_matches(got, known) or known[:3])
        expected = f"one of {len(known)}, as {alike}"
        raise InputError(f"unknown {kind}", where=f"{kind} of {WHERE}", got=repr(got), expected=expected)
