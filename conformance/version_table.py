"""`python -m conformance.version_table CERTIFICATES DOCUMENT`: writes what a run of the matrix granted into a document.

CERTIFICATES holds a folder for each engine version, in it a certificate a level. Exit code 1 where one is missing,
refused or grants nothing; the table is written all the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.certificate.folder import KILLS, MANIFEST, RESULTS
from conformance.certificate.record import Kill, Manifest, Result, Status
from conformance.certificate.verify import verify
from vskipper.errors import InputError

# of each version's folders, the level that its certificate is of
LEVELS: Final = {"core": "core", "lifecycle": "lifecycle"}
HEADING: Final = "## Levels by version"
NAMES: Final = "sglang*-cpu"
RUNTIME: Final = "sglang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Of one engine version. cells: one a level. whole: every level is granted."""

    version: str
    torch: str
    cells: tuple[str, ...]
    whole: bool

    def render(self) -> str:
        return f"| {self.version} | {self.torch} | {' | '.join(self.cells)} |"


def read_line(folder: Path) -> Line:
    """Of a folder `sglang0516-cpu` or the like; a certificate that is not there, or holds nothing, is said to be so."""
    levels = [_level(folder / level) for level in LEVELS]
    granting = [level for level, (_, granted) in zip(LEVELS, levels, strict=True) if granted]
    versions = _manifest(folder / granting[0]).versions if granting else {}
    digits = "".join(filter(str.isdigit, folder.name))
    return Line(
        version=versions.get("sglang") or f"{digits[:1]}.{digits[1:2]}.{int(digits[2:] or 0)}",
        torch=versions.get("torch") or "",
        cells=tuple(cell for cell, _ in levels),
        whole=all(granted for _, granted in levels),
    )


def _manifest(certificate: Path) -> Manifest:
    return Manifest.from_json(json.loads((certificate / MANIFEST).read_text(encoding="utf-8")))


def _level(certificate: Path) -> tuple[str, bool]:
    """`granted: ...` where the certificate holds, and is of the level and of the runtime that its folder is for."""
    if not (certificate / MANIFEST).is_file():
        return "**not run**", False
    try:
        verdict = verify(certificate)
    except InputError as error:
        return f"**unreadable**: {error}".replace("|", "\\|"), False
    if not verdict.ok:
        more = f", and {len(verdict.refusals) - 1} more" if len(verdict.refusals) > 1 else ""
        return f"**refused**: {verdict.refusals[0]}{more}".replace("|", "\\|"), False
    manifest = _manifest(certificate)
    if (manifest.level, manifest.runtimes[0]) != (LEVELS[certificate.name], RUNTIME):
        return f"**another**: level {manifest.level} on {manifest.runtimes[0]}", False
    lines = (certificate / RESULTS).read_text(encoding="utf-8").splitlines()
    counted = Counter(Result.from_json(json.loads(line)).status for line in lines)
    kills = map(Kill.from_json, json.loads((certificate / KILLS).read_text(encoding="utf-8"))["kills"])
    told = f"granted: {counted.pop(Status.PASSED)} properties, {sum(kill.ok for kill in kills)} faults killed"
    others = "".join(f", {count} {status}" for status, count in sorted(counted.items()))
    return f"{told}{others}, {manifest.seconds / 60:.1f} min", True


def render(lines: Sequence[Line]) -> str:
    """The table, by version."""
    ordered = sorted(lines, key=lambda line: [int(part) for part in re.findall(r"\d+", line.version)])
    head = ["| SGLang | torch | Core | Lifecycle |", "|---|---|---|---|"]
    return "\n".join([*head, *(line.render() for line in ordered)])


def put(document: str, table: str) -> str:
    """The document with `table` in place of the one under HEADING; raises InputError where there is none."""
    before, heading, after = document.partition(HEADING + "\n")
    parts = re.split(r"((?:^\|.*\n)+)", after, maxsplit=1, flags=re.MULTILINE)
    if not heading or len(parts) != 3:
        raise InputError("no table", where=HEADING, got="none", expected="a table below that heading")
    return before + heading + parts[0] + table + "\n" + parts[2]


def main(arguments: Sequence[str]) -> int:
    """arguments: CERTIFICATES and DOCUMENT."""
    if len(arguments) != 2:
        got = f"{len(arguments)} arguments"
        raise InputError("usage", where="conformance.version_table", got=got, expected="CERTIFICATES DOCUMENT")
    certificates, document = arguments
    if not Path(document).is_file():
        raise InputError("no document", where=document, got="no such file", expected="one with a table")
    lines = [read_line(folder) for folder in sorted(Path(certificates).glob(NAMES)) if folder.is_dir()]
    if not lines:
        raise InputError("no certificates", where=certificates, got="none", expected=f"folders {NAMES}")
    file = Path(document)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError("no document", where=document, got=error, expected="a text in UTF-8") from error
    file.write_text(put(text, render(lines)), encoding="utf-8")
    print(render(lines))
    return 0 if all(line.whole for line in lines) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
