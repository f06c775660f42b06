"""A model folder is whole or absent, whatever goes wrong while it is built or lies there afterwards."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from vskipper.errors import InputError
from vskipper.models.store import MANIFEST, cache_folder, ensure, is_whole


class Builder:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, stage: Path) -> None:
        self.calls += 1
        (stage / "weights").write_text("0123456789")
        (stage / "config").write_text("{}")


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_built_once(tmp_path: Path) -> None:
    build = Builder()
    for _ in range(2):
        assert ensure(tmp_path / "deep" / "m", "m/1", build, owned=False) == tmp_path / "deep" / "m"
    assert build.calls == 1
    assert files(tmp_path / "deep") == {"m"}
    assert files(tmp_path / "deep" / "m") == {"weights", "config", MANIFEST}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "deep" / "m").iterdir()} == {0o644}


def truncate(folder: Path) -> None:
    (folder / "weights").write_text("01234")


def flip(folder: Path) -> None:
    (folder / "weights").write_text("0123456788")


def lose(folder: Path) -> None:
    (folder / "config").unlink()


def lose_manifest(folder: Path) -> None:
    (folder / MANIFEST).unlink()


def garble_manifest(folder: Path) -> None:
    (folder / MANIFEST).write_text('{"recipe": "m/1", "fil')


@pytest.mark.parametrize("damage", [truncate, flip, lose, lose_manifest, garble_manifest])
def test_a_damaged_folder_is_built_anew(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    build, folder = Builder(), tmp_path / "m"
    ensure(folder, "m/1", build, owned=True)
    damage(folder)
    assert not is_whole(folder, "m/1")
    ensure(folder, "m/1", build, owned=True)
    assert build.calls == 2
    assert is_whole(folder, "m/1")
    assert files(tmp_path) == {"m"}


def test_another_recipe_replaces(tmp_path: Path) -> None:
    build = Builder()
    ensure(tmp_path / "m", "m/1", build, owned=False)
    ensure(tmp_path / "m", "m/2", build, owned=False)
    assert json.loads((tmp_path / "m" / MANIFEST).read_text())["recipe"] == "m/2"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert is_whole(ensure(tmp_path / "m", "m/1", Builder(), owned=False), "m/1")


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def build(stage: Path) -> None:
        (stage / "weights").write_text("01")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(tmp_path / "m", "m/1", build, owned=True)
    assert files(tmp_path) == set()


def test_a_build_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    folder = ensure(tmp_path / "m", "m/1", Builder(), owned=True)

    def build(stage: Path) -> None:
        raise InputError("no", where="a", got="b", expected="c")

    with pytest.raises(InputError):
        ensure(folder, "m/2", build, owned=True)
    assert is_whole(folder, "m/1")
    assert files(tmp_path) == {"m"}


def test_another_process_that_was_first_wins(tmp_path: Path) -> None:
    """Both build; the second to be done finds a whole folder and keeps it."""
    folder, first = tmp_path / "m", Builder()

    def build(stage: Path) -> None:
        ensure(folder, "m/1", first, owned=True)
        inode.append(folder.stat().st_ino)
        Builder()(stage)

    inode: list[int] = []
    ensure(folder, "m/1", build, owned=True)
    assert is_whole(folder, "m/1")
    assert folder.stat().st_ino == inode[0]
    assert files(tmp_path) == {"m"}


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="model cannot be written"):
        ensure(tmp_path / "file" / "m", "m/1", Builder(), owned=True)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 4 KiB: writing fails as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_disk_that_is_full(tmp_path: Path, small_files: None) -> None:
    def build(stage: Path) -> None:
        save_file({"weight": torch.zeros(4096)}, stage / "model.safetensors")

    with pytest.raises(InputError, match="model cannot be written") as caught:
        ensure(tmp_path / "m", "m/1", build, owned=True)
    assert isinstance(caught.value.__cause__, SafetensorError)
    assert files(tmp_path) == set()


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSKIPPER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("VSKIPPER_CACHE")
    assert cache_folder() == Path(os.path.expanduser("~")) / ".cache" / "vskipper"
