"""What is opened is a regular file: a pipe in its place is told, and not waited for."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from vskipper.checkpoint import open_checkpoint
from vskipper.errors import InputError
from vskipper.files import check_folder, openable
from vskipper.models import resolve
from vskipper.models.store import is_whole
from vskipper.sglang.config import from_environment
from vskipper.sglang.launch.command import check_model
from vskipper.sglang.launch.config import engine_config
from vskipper.sglang.probe import probe_tree


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        # the name of a socket is short
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": listen,
    "a device": lambda path: path.symlink_to("/dev/full"),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(resolve("tiny-llama"), tmp_path / "model"))


def put(kind: str, path: Path) -> Path:
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    return path


def told(kind: str, path: Path) -> str:
    return rf"not a regular file \[{path}\]: got {kind}, expected "


@kinds
def test_links_are_followed_and_what_is_absent_is_left_to_others(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link", "nothing"):
        assert openable(tmp_path / name) == tmp_path / name
    path = put(kind, tmp_path / "odd")
    with pytest.raises(InputError, match=told(kind, path)):
        openable(path)


@kinds
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "model.safetensors.index.json"])
def test_a_model_s_files(folder: Path, kind: str, name: str) -> None:
    path = put(kind, folder / name)
    for look in (open_checkpoint, lambda folder: check_model(str(folder)), check_folder):
        with pytest.raises(InputError, match=told(kind, path)):
            look(folder)


@kinds
def test_a_shard(folder: Path, kind: str) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "odd"}}')
    path = put(kind, folder / "odd")
    with pytest.raises(InputError, match=told(kind, path)):
        open_checkpoint(folder)


@kinds
@pytest.mark.parametrize("name", ["odd.pt", "odd.safetensors"])
def test_a_delta(folder: Path, tmp_path: Path, kind: str, name: str) -> None:
    path = put(kind, tmp_path / name)
    with pytest.raises(InputError, match=told(kind, path)):
        open_checkpoint(folder, path)


@kinds
def test_the_gate_mode_beside_a_delta(folder: Path, tmp_path: Path, kind: str) -> None:
    delta = Path(shutil.copy(folder / "flexidepth.safetensors", tmp_path))
    path = put(kind, tmp_path / "config.json")
    with pytest.raises(InputError, match=told(kind, path)):
        open_checkpoint(folder, delta)


@kinds
def test_a_configuration(tmp_path: Path, kind: str) -> None:
    path = put(kind, tmp_path / "odd.json")
    with pytest.raises(InputError, match=told(kind, path)):
        engine_config("tiny-llama", {}, path, {})
    with pytest.raises(InputError, match=told(kind, path)):
        from_environment({"VSKIPPER_CONFIG": str(path)})


@kinds
def test_a_built_model_with_something_else_in_it_is_not_whole(folder: Path, kind: str) -> None:
    put(kind, folder / "vskipper.json")
    assert not is_whole(folder, "any")


@kinds
def test_an_engine_to_probe(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="no SGLang"):
        probe_tree(put(kind, tmp_path / "odd"))
    (tmp_path / "sglang" / "srt").mkdir(parents=True)
    (tmp_path / "sglang" / "srt" / "server_args.py").write_text("")
    path = put(kind, tmp_path / "sglang" / "_version.py")
    with pytest.raises(InputError, match=told(kind, path)):
        _ = probe_tree(tmp_path).version


def test_a_subfolder_of_a_model_is_no_matter(folder: Path) -> None:
    (folder / "original").mkdir()
    check_folder(folder)
    check_folder(folder / "nothing")
