"""What a run leaves behind, as values: results, kills and the manifest, each with its JSON form. No tensor library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

QUIET = "quiet"
UNSUPPORTED = "unsupported"


class Status(StrEnum):
    """How one property ended. Only PASSED counts as passed; the others are counted apart."""

    PASSED = "passed"
    FAILED = "failed"
    VACUOUS = "vacuous"
    UNSUPPORTED = "unsupported"
    BLOCKED = "blocked"
    EXPECTED_FAILURE = "expected_failure"
    UNEXPECTED_PASS = "unexpected_pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failing case. line: the frozen key=value line. tape: shrunk routes, one line a routed layer, such as
    `L16:RPRPP`. plan: the pass in words. repro: one shell command."""

    line: str
    tape: str = ""
    plan: str = ""
    repro: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Failure:
        return cls(**raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One property's outcome. counters: vacuity counters by name. margin: the worst err / limit of its envelope, at
    most 1 when passed, or None where the property compares bits. seconds: wall time."""

    property: str
    clause: str
    status: Status
    runtime: str
    model: str
    examples: int
    counters: Mapping[str, int]
    seconds: float
    margin: float | None = None
    failure: Failure | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"status": self.status.value, "counters": dict(self.counters)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Result:
        failure = raw.get("failure")
        return cls(
            **{
                **raw,
                "status": Status(raw["status"]),
                "failure": None if failure is None else Failure.from_json(failure),
            }
        )


def place_in_words(place: str, dtype: str, attention_backend: str | None) -> str:
    """place: `runtime/model`."""
    return " ".join([place, "in", dtype, *(["with", attention_backend] if attention_backend else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What one seeded fault provoked. source: the public report it stands for. outcomes: property id to
    `killed:<reason>`, `quiet` or `unsupported`, for every property that it was held against. quiet: the properties
    that must stay quiet. runtime, model, dtype, attention_backend: where it was tried, the last None for the device's
    own."""

    fault: str
    source: str
    killer: str
    reason_expected: str
    outcomes: Mapping[str, str]
    quiet: tuple[str, ...]
    runtime: str
    model: str
    dtype: str
    attention_backend: str | None
    killed: bool
    quiet_ok: bool

    @property
    def ok(self) -> bool:
        return self.killed and self.quiet_ok

    @property
    def place(self) -> str:
        """Where it was tried, in words."""
        return place_in_words(f"{self.runtime}/{self.model}", self.dtype, self.attention_backend)

    @classmethod
    def judged(
        cls,
        *,
        fault: str,
        source: str,
        killer: str,
        reason_expected: str,
        outcomes: Mapping[str, str],
        quiet: tuple[str, ...],
        runtime: str,
        model: str,
        dtype: str = "float32",
        attention_backend: str | None = None,
    ) -> Kill:
        """Derive both verdicts from the outcomes: killed by its killer for its reason, and quiet where it must be."""
        return cls(
            fault=fault,
            source=source,
            killer=killer,
            reason_expected=reason_expected,
            outcomes=outcomes,
            quiet=quiet,
            runtime=runtime,
            model=model,
            dtype=dtype,
            attention_backend=attention_backend,
            killed=False,
            quiet_ok=False,
        ).rejudged()

    def rejudged(self) -> Kill:
        """With both verdicts as its outcomes have them."""
        return replace(
            self,
            killed=self.outcomes.get(self.killer) == f"killed:{self.reason_expected}",
            quiet_ok=all(self.outcomes.get(property) == QUIET for property in self.quiet),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"outcomes": dict(self.outcomes), "quiet": list(self.quiet)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Kill:
        return cls(**{**raw, "quiet": tuple(raw["quiet"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyIdentity:
    """spec: as named on the command line. settings: as given. source_hash: SHA-256 of the policy's source, hex."""

    spec: str
    settings: Mapping[str, Any]
    source_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIdentity:
    """digest: SHA-256 over the model's tensors and configuration, hex. routed_layers: ascending."""

    name: str
    digest: str
    routed_layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """The serving engine under test, where there is one. device: cpu or cuda. attention_backend: None for the device's
    own."""

    name: str
    version: str
    device: str = "cpu"
    attention_backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """platform: as the operating system calls itself. driver and gpu: None without a GPU."""

    platform: str
    driver: str | None = None
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was certified, with what, where. versions: distribution name to version, None where absent. examples:
    declared examples by property id. started: UTC, `2026-01-31T12:00:00Z`. sample_tape: one string of action letters a
    routed layer. granted and reduced are derived when the certificate is written, never believed from a run."""

    suite_version: str
    contract_version: int
    level: str
    policy: PolicyIdentity
    model: ModelIdentity
    runtimes: tuple[str, ...]
    versions: Mapping[str, str | None]
    machine: Machine
    page_sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    seed: int
    examples: Mapping[str, int]
    started: str
    seconds: float
    engine: EngineIdentity | None = None
    granted: bool = False
    reduced: bool = False
    sample_tape: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        raw = asdict(self)
        raw["versions"], raw["examples"] = dict(self.versions), dict(self.examples)
        for name in ("runtimes", "page_sizes", "dtypes", "sample_tape"):
            raw[name] = list(raw[name])
        raw["policy"]["settings"] = dict(self.policy.settings)
        raw["model"]["routed_layers"] = list(self.model.routed_layers)
        return raw

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Manifest:
        model, engine = raw["model"], raw.get("engine")
        tuples = {name: tuple(raw[name]) for name in ("runtimes", "page_sizes", "dtypes")}
        return cls(
            **{
                **raw,
                **tuples,
                "policy": PolicyIdentity(**raw["policy"]),
                "model": ModelIdentity(**{**model, "routed_layers": tuple(model.get("routed_layers", ()))}),
                "engine": None if engine is None else EngineIdentity(**engine),
                "machine": Machine(**raw["machine"]),
                "sample_tape": tuple(raw.get("sample_tape", ())),
            }
        )
