"""A failing case with all that is needed to run it again, as one word for a command line."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.replay_word import pack, unpack
from conformance.subjects import SubjectSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBlob:
    """property: its id. case: as properties.codec encodes it. fault: the seeded fault in force, if one was."""

    property: str
    spec: SubjectSpec
    case: str
    fault: str | None
    seed: int

    def encode(self) -> str:
        return pack(
            {
                "property": self.property,
                "spec": self.spec.to_json(),
                "case": self.case,
                "fault": self.fault,
                "seed": self.seed,
            }
        )

    @classmethod
    def decode(cls, text: str) -> ReplayBlob:
        """Raises InputError for anything that encode() did not make."""
        raw = unpack(text)
        return cls(**{**raw, "spec": SubjectSpec.from_json(raw["spec"])})
