"""An SGLang tree to be read: an installed or unpacked one, or a wheel as it is. Nothing of it is imported."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile
from zlib import error as ZlibError

from vskipper.errors import InputError
from vskipper.files import openable, other_kind
from vskipper.sglang.probe.source import Absent, Definition, Source

UNKNOWN_VERSION: Final = "unknown"
PACKAGE: Final = "sglang"
# no SGLang is without it
_MARK: Final = "srt/server_args.py"
_STATED: Final = r"""^__version__ = .*['"](.+)['"]$"""
_EXPECTED: Final = "a folder with sglang/ in it, the folder sglang itself, or a wheel"


class Tree:
    """The files of one SGLang. read: the bytes of a file, named from the folder `sglang` on, or None."""

    def __init__(self, root: str, read: Callable[[str], bytes | None], metadata: Callable[[], str | None]) -> None:
        self.root = root
        self._read = read
        self._metadata = metadata
        self.source = cache(self._source)

    def _source(self, path: str) -> Source | Absent:
        content = self._read(path)
        if content is None:
            return Absent(reason="no such file")
        try:
            return Source(content.decode())
        except UnicodeDecodeError:
            return Absent(reason="not a text in UTF-8", broken=True)

    def find(self, path: str, name: str) -> Definition | Absent:
        """The class or function `name` of the file `path`."""
        source = self.source(path)
        return source if isinstance(source, Absent) else source.find(name)

    @property
    def version(self) -> str:
        """As the tree states it: in its generated module, else in the metadata beside it."""
        generated = self.source("_version.py")
        stated = None if isinstance(generated, Absent) else re.search(_STATED, generated.text, re.M)
        found = stated or re.search(r"^Version: (\S+)$", self._metadata() or "", re.M)
        return found[1] if found else UNKNOWN_VERSION


def installed_root() -> Path:
    """The folder that holds the installed `sglang`; raises InputError where there is none. Imports nothing."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError("no SGLang", where="this environment", got="not installed", expected="sglang, or a path")
    return Path(next(iter(spec.submodule_search_locations))).parent


def open_tree(path: Path) -> Tree:
    """Raises InputError for a path that is none, holds no SGLang or cannot be read."""
    if path.is_file():
        return _wheel(path)
    if not path.is_dir():
        got = other_kind(path) or "no such path"
        raise InputError("no SGLang", where=path, got=got, expected=_EXPECTED)
    package = next((each for each in (path / PACKAGE, path) if (each / _MARK).is_file()), None)
    if package is None:
        raise InputError("no SGLang", where=path, got=f"no {PACKAGE}/{_MARK}", expected=_EXPECTED)
    root = package.resolve().parent
    return Tree(str(root), lambda name: _file(package / name), lambda: _folder_metadata(root))


def _file(path: Path) -> bytes | None:
    try:
        return openable(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError("an unreadable file", where=path, got=error.strerror, expected="a readable file") from error


def _folder_metadata(root: Path) -> str | None:
    found = sorted(root.glob(f"{PACKAGE}-*.dist-info/METADATA"))
    return openable(found[0]).read_text(errors="replace") if len(found) == 1 else None


def _wheel(path: Path) -> Tree:
    try:
        archive = ZipFile(path)
    except (BadZipFile, OSError) as error:
        raise InputError("no wheel", where=path, got=error, expected=_EXPECTED) from error
    names = frozenset(archive.namelist())

    def read(name: str) -> bytes | None:
        if name not in names:
            return None
        try:
            return archive.read(name)
        except (BadZipFile, EOFError, OSError, RuntimeError, ZlibError) as error:
            raise InputError("a broken wheel", where=f"{path}: {name}", got=error, expected="a wheel") from error

    if f"{PACKAGE}/{_MARK}" not in names:
        raise InputError("no SGLang", where=path, got=f"no {PACKAGE}/{_MARK}", expected=_EXPECTED)
    metadata = next((name for name in names if re.fullmatch(rf"{PACKAGE}-[^/]+\.dist-info/METADATA", name)), None)
    return Tree(
        str(path),
        lambda name: read(f"{PACKAGE}/{name}"),
        lambda: (read(metadata) or b"").decode(errors="replace") if metadata else None,
    )
