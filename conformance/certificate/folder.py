"""A certificate folder: written beside its place and renamed into it, so that it is whole or absent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.certificate.judge import Decision, decide
from conformance.certificate.record import Kill, Manifest, Result
from conformance.certificate.report import render_report
from conformance.certificate.schemas import valid
from conformance.certificate.waivers import apply_waivers, parse_waivers
from conformance.must_pass import MustPass, load_must_pass
from vskipper.errors import InputError

SUMS: Final = "SHA256SUMS"
MANIFEST: Final = "manifest.json"
RESULTS: Final = "results.jsonl"
WAIVERS: Final = "waivers.toml"
KILLS: Final = "kill_matrix.json"
REPORT: Final = "report.html"
FILES: Final = (KILLS, MANIFEST, REPORT, RESULTS, WAIVERS)
# more than a certificate takes
ROOM: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was written: the records with their verdicts filled in, and the decision."""

    manifest: Manifest
    results: tuple[Result, ...]
    kills: tuple[Kill, ...]
    decision: Decision


def write_certificate(
    folder: Path,
    manifest: Manifest,
    results: Sequence[Result],
    kills: Sequence[Kill],
    waivers_text: str,
    must_pass: MustPass | None = None,
) -> Certificate:
    """Judge the run and write `folder`; an older certificate there is replaced, anything else is refused.

    must_pass: the level's packaged demands unless given. Raises InputError; leaves nothing half-written.
    """
    check_target(folder)
    demands = load_must_pass(manifest.level) if must_pass is None else must_pass
    waivers = parse_waivers(waivers_text)
    ordered = _in_order(apply_waivers(waivers, results), [need.property for need in demands.requirements])
    decision = decide(manifest, demands, ordered, kills, waivers)
    settled = replace(manifest, granted=decision.granted, reduced=decision.reduced)
    _write(folder, file_texts(settled, ordered, kills, waivers_text, demands, decision))
    return Certificate(manifest=settled, results=ordered, kills=tuple(kills), decision=decision)


def check_target(folder: Path) -> None:
    """Raise InputError unless `folder` is absent, empty or a certificate, and its parent can hold it."""
    try:
        _refuse_other_content(folder)
        _try_out(folder)
    except OSError as error:
        got = error.strerror or type(error).__name__
        raise InputError("certificate folder", where=folder, got=got, expected="a place to write in") from error


def _refuse_other_content(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError("certificate folder", where=folder, got="not a folder", expected="a new folder")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names and not (SUMS in names and names <= {SUMS, *FILES}):
        surplus = sorted(names - {SUMS, *FILES}) or sorted(names)
        raise InputError(
            "folder is not a certificate and is left alone",
            where=folder,
            got=surplus[0],
            expected="a new, an empty or a certificate folder",
        )


def _try_out(folder: Path) -> None:
    """Make and remove what writing `folder` will need, beside the nearest folder that is there: neither permissions nor
    what a disk says of itself tell whether it takes a new folder of that name, and that much in it."""
    there = next(parent for parent in folder.absolute().parents if parent.exists())
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".old", dir=there) as probe:
        tried = Path(probe) / folder.absolute().relative_to(there)
        tried.mkdir(parents=True)
        (tried / REPORT).write_bytes(bytes(ROOM))


def file_texts(
    manifest: Manifest,
    results: Sequence[Result],
    kills: Sequence[Kill],
    waivers_text: str,
    must_pass: MustPass,
    decision: Decision,
) -> dict[str, str]:
    """Every file of a certificate but SHA256SUMS, by name. Raises Damaged when a record breaks its schema."""
    matrix = {"kills": [kill.to_json() for kill in kills]}
    return {
        MANIFEST: dump(valid(manifest.to_json(), "manifest", MANIFEST), indent=2),
        RESULTS: "".join(dump(valid(result.to_json(), "result", RESULTS)) for result in results),
        WAIVERS: waivers_text,
        KILLS: dump(valid(matrix, "kill_matrix", KILLS), indent=1),
        REPORT: render_report(manifest, results, kills, waivers_text, must_pass, decision),
    }


def dump(value: Any, indent: int | None = None) -> str:
    """Strict JSON and a newline; raises ValueError on NaN or infinity."""
    return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"


def sums_text(texts: dict[str, str]) -> str:
    """SHA256SUMS in the format of sha256sum, sorted by name."""
    return "".join(f"{hashlib.sha256(texts[name].encode()).hexdigest()}  {name}\n" for name in sorted(texts))


def _in_order(results: Sequence[Result], order: Sequence[str]) -> tuple[Result, ...]:
    rank = {name: index for index, name in enumerate(order)}
    return tuple(sorted(results, key=lambda result: rank.get(result.property, len(rank))))


def _write(folder: Path, texts: dict[str, str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, text in {**texts, SUMS: sums_text(texts)}.items():
            (staging / name).write_bytes(text.encode())
        staging.chmod(0o755)
        _swap(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _swap(staging: Path, folder: Path) -> None:
    """Rename `staging` to `folder`; an older folder is moved aside first and back again should the rename fail."""
    if not folder.exists():
        os.rename(staging, folder)
        return
    aside = staging.with_name(f"{staging.name}.old")
    os.rename(folder, aside)
    try:
        os.rename(staging, folder)
    except OSError:
        os.rename(aside, folder)
        raise
    shutil.rmtree(aside)
