"""Small trees that have SGLang's signatures and nothing else: `old.txt`, and the suite's own; a file after a line
`### path`. `mutants.txt` and `additions.txt` hold changes of them, each after a line `seam tree path`: what stands
there (-), and what stands there instead (+)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from properties.core.bad_engine import small_engine
from vskipper.sglang.probe.areas import AREAS
from vskipper.sglang.probe.seam import Seam, SeamSpec, probe
from vskipper.sglang.probe.tree import PACKAGE, Tree

Files = dict[str, str]
FOLDER = Path(__file__).parent / "trees"
SPECS: dict[str, tuple[str, SeamSpec]] = {spec.name: (area, spec) for area, specs in AREAS.items() for spec in specs}


def read(name: str) -> Files:
    text = (FOLDER / f"{name}.txt").read_text()
    return dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))


OLD, NEW = read("old"), small_engine()


def changes(name: str) -> Iterator[tuple[str, Files, Files]]:
    """(seam, tree, the tree changed)."""
    for block in (FOLDER / f"{name}.txt").read_text().split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        seam_name, base, path = head.split()
        before = "\n".join(line[1:] for line in lines if line.startswith("-"))
        after = "\n".join(line[1:] for line in lines if line.startswith("+"))
        files = {"old": OLD, "new": NEW}[base]
        yield seam_name, files, edited(files, path, before or None, after)


def edited(files: Files, path: str, before: str | None, after: str | None) -> Files:
    """The tree with `before` replaced by `after` in one file; before None: the whole file, after None: no such file."""
    if after is None:
        return {name: text for name, text in files.items() if name != path}
    if before is None:
        return files | {path: after}
    assert before in files[path], f"{path} has no {before!r}"
    return files | {path: files[path].replace(before, after)}


def tree(files: Files, asked: set[str] | None = None) -> Tree:
    """asked: is given the names of files that are read."""

    def content(path: str) -> bytes | None:
        if asked is not None:
            asked.add(path)
        return files[path].encode() if path in files else None

    return Tree("memory", content, lambda: None)


def seam(name: str, files: Files) -> Seam:
    area, spec = SPECS[name]
    return probe(area, spec, tree(files))


def write(files: Files, folder: Path) -> Path:
    """The tree on disk; returns the folder that holds sglang."""
    for name, text in files.items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
