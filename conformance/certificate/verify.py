"""Re-checks a certificate from its bytes alone: no torch, no numpy, no GPU, nothing of the run that wrote it.

Whoever changes a certificate can recompute its hashes, so every record is also held against the packaged must-pass
lists, against the other records and against the report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from conformance.certificate.folder import FILES, KILLS, MANIFEST, REPORT, RESULTS, SUMS, WAIVERS, file_texts
from conformance.certificate.judge import Decision, decide
from conformance.certificate.record import Kill, Manifest, Result
from conformance.certificate.schemas import Damaged, parse, valid
from conformance.certificate.waivers import parse_waivers
from conformance.clauses import CONTRACT_VERSION, LEVEL_BY_ID
from conformance.must_pass import MustPass, load_must_pass
from vskipper import __version__
from vskipper.errors import InputError

SUITE: Final = re.compile(r"[0-9A-Za-z.+-]{1,40}")
SUM_LINE: Final = re.compile(r"([0-9a-f]{64})  ([\w.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """level: its title. refusals: one line each, none when the certificate holds. waivers: how many it leans on."""

    level: str
    policy: str
    model: str
    refusals: tuple[str, ...]
    runtimes: tuple[str, ...] = ()
    waivers: int = 0

    @property
    def ok(self) -> bool:
        return not self.refusals

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self), "refusals": list(self.refusals), "runtimes": list(self.runtimes)}


def verify(folder: Path, must_pass: MustPass | None = None) -> Verdict:
    """Judge a certificate folder. Raises InputError when it is none, cannot be read, or its contract is newer than
    ours."""
    try:
        verdict = _verify(folder, must_pass)
    except OSError as error:
        raise InputError(
            "certificate cannot be read",
            where=error.filename or folder,
            got=error.strerror or error,
            expected="a folder and files that can be read",
        ) from error
    return replace(verdict, refusals=tuple(map(_one_line, verdict.refusals)))


def _one_line(text: str) -> str:
    """What a certificate says is printed, so nothing in it may end a line or steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _verify(folder: Path, must_pass: MustPass | None) -> Verdict:
    if not (folder.is_dir() and (folder / MANIFEST).is_file() and (folder / SUMS).is_file()):
        raise InputError(
            "not a certificate",
            where=folder,
            got=_instead(folder),
            expected="a folder written by vskipper certify",
        )
    _refuse_newer_contract(folder)
    bytes_refusals = tuple(_byte_refusals(folder))
    try:
        texts = {name: _text(folder, name) for name in FILES}
        manifest, results, kills = _records(texts)
    except Damaged as damage:
        return _damaged((*bytes_refusals, str(damage)))
    return _judge(texts, manifest, results, kills, bytes_refusals, must_pass)


def _instead(folder: Path) -> str:
    if folder.is_dir():
        return "a folder without manifest.json and SHA256SUMS"
    return "a file, no folder" if folder.exists() else "no such folder"


def _judge(
    texts: dict[str, str],
    manifest: Manifest,
    results: Sequence[Result],
    kills: Sequence[Kill],
    refusals: tuple[str, ...],
    must_pass: MustPass | None,
) -> Verdict:
    try:
        waivers = parse_waivers(texts[WAIVERS])
        demands = load_must_pass(manifest.level) if must_pass is None else must_pass
        decision = decide(manifest, demands, results, kills, waivers)
    except InputError as error:
        return _damaged((*refusals, str(error)))
    found = (
        *refusals,
        *_contradictions(manifest, results, decision),
        *decision.reasons,
        *_report_refusals(texts, manifest, results, kills, demands, decision),
    )
    return Verdict(
        level=LEVEL_BY_ID[manifest.level].title,
        policy=manifest.policy.spec,
        model=manifest.model.name,
        refusals=found,
        runtimes=manifest.runtimes,
        waivers=len(waivers),
    )


def _damaged(refusals: tuple[str, ...]) -> Verdict:
    return Verdict(level="unknown", policy="unknown", model="unknown", refusals=refusals)


def _refuse_newer_contract(folder: Path) -> None:
    """A newer manifest may have any shape, so this is asked before anything else is believed or refused."""
    try:
        raw = parse((folder / MANIFEST).read_text(encoding="utf-8"), MANIFEST)
    except (UnicodeDecodeError, Damaged):
        return
    version = raw.get("contract_version") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > CONTRACT_VERSION:
        raise InputError(
            "certificate of a newer contract",
            where=folder / MANIFEST,
            got=f"contract {version}",
            expected=f"contract {CONTRACT_VERSION}; a newer vskipper reads it",
        )


def _byte_refusals(folder: Path) -> Iterator[str]:
    """The exact file set, and every hash."""
    for path in sorted(folder.iterdir()):
        if path.name not in (SUMS, *FILES):
            yield f"{path.name}: unknown file"
        elif path.is_symlink() or not path.is_file():
            yield f"{path.name}: not a regular file"
    lines = (folder / SUMS).read_bytes().decode(errors="replace").split("\n")
    matches = [SUM_LINE.fullmatch(line) for line in lines[:-1]]
    sums = {match[2]: match[1] for match in matches if match}
    if lines[-1] or tuple(match[2] if match else None for match in matches) != FILES:
        yield f"{SUMS}: got {', '.join(sums) or 'nothing readable'}; expected one line each for {', '.join(FILES)}"
    for name in FILES:
        if (folder / name).is_file() and name in sums:
            got = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            if got != sums[name]:
                yield f"{name}: SHA-256 got {got}, expected {sums[name]}"


def _text(folder: Path, name: str) -> str:
    if not (folder / name).is_file():
        raise Damaged(f"{name}: missing")
    try:
        return (folder / name).read_bytes().decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"{name}: not UTF-8 at byte {error.start}") from error


def _records(texts: dict[str, str]) -> tuple[Manifest, tuple[Result, ...], tuple[Kill, ...]]:
    manifest = parse(texts[MANIFEST], MANIFEST)
    _refuse_other_suite(manifest)
    manifest = valid(manifest, "manifest", MANIFEST)
    if manifest["contract_version"] != CONTRACT_VERSION:
        raise Damaged(f"{MANIFEST}: got contract {manifest['contract_version']}, expected {CONTRACT_VERSION}")
    try:
        datetime.fromisoformat(manifest["started"])
    except ValueError as error:
        raise Damaged(f"{MANIFEST}, started: {error}") from error
    results = []
    for number, line in enumerate(texts[RESULTS].removesuffix("\n").split("\n"), start=1):
        where = f"{RESULTS}:{number}"
        results.append(Result.from_json(valid(parse(line, where), "result", where)))
    kills = valid(parse(texts[KILLS], KILLS), "kill_matrix", KILLS)["kills"]
    return Manifest.from_json(manifest), tuple(results), tuple(Kill.from_json(kill) for kill in kills)


def _refuse_other_suite(manifest: Any) -> None:
    """Another suite has other lists and another report, so its certificate cannot be held against ours."""
    version = manifest.get("suite_version") if isinstance(manifest, dict) else None
    if isinstance(version, str) and version != __version__:
        said = version if SUITE.fullmatch(version) else repr(version)[:80]
        raise Damaged(f"{MANIFEST}: written by suite {said}, this is {__version__}: verify it with vskipper=={said}")


def _contradictions(manifest: Manifest, results: Sequence[Result], decision: Decision) -> Iterator[str]:
    """Where the manifest says something else than the records do."""
    level = LEVEL_BY_ID[manifest.level].title
    if manifest.granted and not decision.granted:
        yield f"{MANIFEST}: says level {level} is granted, the records do not grant it"
    if not manifest.granted:
        yield f"{MANIFEST}: level {level} is not granted"
    if manifest.reduced != decision.reduced:
        yield f"{MANIFEST}: reduced: got {manifest.reduced}, expected {decision.reduced} by the records"
    for result in results:
        if not set(result.runtime.split(",")) <= set(manifest.runtimes):
            yield f"{result.property} ({result.clause}): runtime {result.runtime} is not in the manifest"
    yield from _implausible(manifest)
    layers = manifest.model.routed_layers
    if not layers:
        yield f"{MANIFEST}: no routed layer"
    if (manifest.sample_tape or manifest.granted) and len(layers) != len(manifest.sample_tape):
        yield f"{MANIFEST}: sample tape of {len(manifest.sample_tape)} layers, expected {len(layers)} routed layers"
    if len({len(row) for row in manifest.sample_tape}) > 1:
        yield f"{MANIFEST}: sample tape is ragged"


def _implausible(manifest: Manifest) -> Iterator[str]:
    """Where the manifest says what no run could."""
    for name, text in (("policy.spec", manifest.policy.spec), ("model.name", manifest.model.name)):
        if not text.isprintable():
            yield f"{MANIFEST}, {name}: not printable: {text}"
    if datetime.fromisoformat(manifest.started) > datetime.now(UTC) + timedelta(days=1):
        yield f"{MANIFEST}, started: {manifest.started} is in the future"
    if manifest.seconds <= 0:
        yield f"{MANIFEST}, seconds: {manifest.seconds:g}, and there are results"


def _report_refusals(
    texts: dict[str, str],
    manifest: Manifest,
    results: Sequence[Result],
    kills: Sequence[Kill],
    must_pass: MustPass,
    decision: Decision,
) -> Iterator[str]:
    """The report must be the one that these records render to."""
    expected = file_texts(manifest, results, kills, texts[WAIVERS], must_pass, decision)
    for name in (REPORT, MANIFEST, RESULTS, KILLS):
        if texts[name] != expected[name]:
            yield f"{name}: differs from what the records render to"
