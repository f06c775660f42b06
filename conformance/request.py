"""What a certification is asked to do, as a JSON file between the command line and the suite's own process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyRequest:
    """policy: a name or package.module:Class. settings: its keyword arguments, as JSON values. model: a name or a
    folder. delta: a file of router and projector tensors. dtype, attention_backend: as in SubjectSpec. examples: of
    each property, or None for the level's own. faults: whether the seeded ones are run. workers: processes beside the
    controlling one. work_dir: to write in."""

    policy: str
    model: str
    work_dir: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    delta: str | None = None
    runtime: str = "torch"
    dtype: str = "float32"
    attention_backend: str | None = None
    level: str = "core"
    examples: int | None = None
    seed: int = 0
    faults: bool = True
    workers: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"settings": dict(self.settings)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CertifyRequest:
        """Raises ValueError or TypeError for a text that to_json() did not make."""
        return cls(**json.loads(text))
