"""Model folders that are whole or absent: built beside their place, renamed into it, checked against a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from vskipper.errors import InputError
from vskipper.files import openable

MANIFEST = "vskipper.json"


def cache_folder() -> Path:
    """Where models are kept: $VSKIPPER_CACHE, or ~/.cache/vskipper."""
    named = os.environ.get("VSKIPPER_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "vskipper"


def ensure(folder: Path, recipe: str, build: Callable[[Path], None], *, owned: bool) -> Path:
    """The folder, built by `build` (given an empty folder to fill) unless it holds what this recipe built before.

    A folder that is damaged or of another recipe is replaced; one without a manifest only where it is owned.
    Raises InputError for one that is not, and where it cannot be written.
    """
    if is_whole(folder, recipe):
        return folder
    if not owned and folder.exists() and not (folder / MANIFEST).exists() and any(folder.iterdir()):
        expected = f"an empty folder, or one with {MANIFEST}"
        raise InputError("folder holds something else", where=folder, got="other files", expected=expected)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _beside(folder) as stage:
            build(stage)
            files = {path.name: _digest(path) for path in sorted(stage.iterdir())}
            (stage / MANIFEST).write_text(json.dumps({"recipe": recipe, "files": files}, indent=1) + "\n")
            _make_readable(stage)
            _publish(stage, folder, recipe)
    # safetensors has an error of its own for a disk that is full
    except (OSError, SafetensorError) as error:
        raise InputError("model cannot be written", where=folder, got=error, expected="a writable folder") from error
    return folder


def is_whole(folder: Path, recipe: str) -> bool:
    """Whether the folder holds every byte that `recipe` built."""
    try:
        manifest = json.loads(openable(folder / MANIFEST).read_text())
        files = dict(manifest["files"])
        return bool(manifest["recipe"] == recipe) and all(_digest(folder / name) == files[name] for name in files)
    except (OSError, ValueError, KeyError, TypeError):
        # absent or damaged: the caller builds it anew
        return False


def _publish(stage: Path, folder: Path, recipe: str) -> None:
    """Rename into place; where another process was first with a whole folder, keep that one."""
    with _beside(folder) as discarded:
        try:
            if folder.exists() and not is_whole(folder, recipe):
                folder.rename(discarded / "old")
            stage.rename(folder)
        except OSError:
            if not is_whole(folder, recipe):
                raise


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same file system; gone at the end, unless it was renamed away."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _make_readable(stage: Path) -> None:
    # temporary folders and safetensors files are the owner's alone
    stage.chmod(0o755)
    for path in stage.iterdir():
        path.chmod(0o644)


def _digest(path: Path) -> str:
    with openable(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
