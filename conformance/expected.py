"""Known failures of an engine's version: which of them a run is told of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from conformance.certificate.waivers import Waiver, parse_waivers
from conformance.must_pass import MustPass

FOLDER: Final = Path(__file__).parent / "expected"


def known_failures(version: str | None) -> tuple[Waiver, ...]:
    """Those of SGLang `version`, from `sglang-<version>.toml`; none where no file is there, or the run has no engine.
    Raises InputError for a file that is not in order."""
    path = FOLDER / f"sglang-{version}.toml"
    return parse_waivers(path.read_text(encoding="utf-8"), str(path)) if version and path.is_file() else ()


def expected_in(waivers: Iterable[Waiver], must_pass: MustPass, runtime: str, model: str) -> str:
    """TOML of those that a run of the level can meet on this runtime, with this model asked for: an entry that another
    level, runtime or model is to meet would here match nothing."""
    return "\n".join(_toml(waiver) for waiver in waivers if _can_be_met(waiver, must_pass, runtime, model))


def _can_be_met(waiver: Waiver, must_pass: MustPass, runtime: str, model: str) -> bool:
    pairs = [
        subject.partition("/")
        for need in must_pass.requirements
        if (need.property, need.clause) == (waiver.property, waiver.clause)
        for subject in need.subjects_of(runtime, model)
    ]
    # results of several subjects are merged into one, which names them all
    here = {"runtime": {name for name, _, _ in pairs}, "model": {name for _, _, name in pairs}}
    return bool(pairs) and all(set(value.split(",")) <= here[key] for key, value in waiver.scope.items())


def _toml(waiver: Waiver) -> str:
    scope = ", ".join(f"{key} = {json.dumps(value)}" for key, value in sorted(waiver.scope.items(), reverse=True))
    lines = [f"{name} = {json.dumps(getattr(waiver, name))}" for name in ("clause", "property")]
    lines.append(f"scope = {{ {scope} }}")
    lines += [f"{name} = {json.dumps(getattr(waiver, name))}" for name in ("issue", "evidence")]
    return "\n".join(["[[waiver]]", *lines, f"expires = {waiver.expires.isoformat()}", ""])
