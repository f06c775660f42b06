"""Files that are opened: a pipe, a socket or a device in a file's place is refused, since opening it may never end."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vskipper.errors import InputError

_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def openable(path: Path, expected: str = "a regular file") -> Path:
    """The path itself; raises InputError where something else than a regular file is there, a link followed. A path
    where nothing is, or that cannot be looked at, is left to whoever opens it."""
    got = other_kind(path)
    if got is not None:
        raise InputError("not a regular file", where=path, got=got, expected=expected)
    return path


def other_kind(path: Path) -> str | None:
    """What is there in place of a regular file, in words; None where one is, or where nothing can be found out."""
    try:
        return _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except (OSError, ValueError):
        return None


def check_folder(folder: Path) -> None:
    """Raises InputError where an engine that reads the model in `folder` would open something that is no file. What is
    no folder is a hub's name, or left to whoever opens it."""
    for path in _files(folder) if folder.is_dir() else ():
        openable(path)


def _files(folder: Path) -> Iterator[Path]:
    """All but subfolders, which models come with; one that is named as a file is none."""
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.suffix in (".json", ".safetensors"):
            yield path
