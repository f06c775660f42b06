"""A failing case with all that is needed to run it again, as one word for a command line."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass

from conformance.subjects import SubjectSpec
from vskipper.errors import InputError

VERSION = "r1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBlob:
    """property: its id. case: as properties.codec encodes it. fault: the seeded fault in force, if one was."""

    property: str
    spec: SubjectSpec
    case: str
    fault: str | None
    seed: int

    def encode(self) -> str:
        raw = {
            "property": self.property,
            "spec": self.spec.to_json(),
            "case": self.case,
            "fault": self.fault,
            "seed": self.seed,
        }
        packed = zlib.compress(json.dumps(raw, sort_keys=True).encode(), 9)
        return f"{VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"

    @classmethod
    def decode(cls, text: str) -> ReplayBlob:
        """Raises InputError for anything that encode() did not make."""
        version, _, body = text.strip().partition(".")
        if version != VERSION or not body:
            raise InputError("not a replay word", where="BLOB", got=text[:20], expected=f"one that begins {VERSION}.")
        try:
            packed = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
            raw = json.loads(zlib.decompress(packed))
            return cls(**{**raw, "spec": SubjectSpec.from_json(raw["spec"])})
        except (binascii.Error, zlib.error, ValueError, TypeError, KeyError) as error:
            raise InputError("damaged replay word", where="BLOB", got=error, expected="the whole word") from error
