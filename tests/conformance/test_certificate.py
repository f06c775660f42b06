"""Writing a certificate: whole or absent, and never over something that is none."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.certificate.folder import FILES, SUMS
from tests.conformance.sample import WAIVER, failed, good_run
from vskipper.errors import InputError


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_folder_holds_exactly_its_files_and_their_hashes(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cert"
    written = replace(good_run().with_result("kv.footprint", failed), waivers=WAIVER).write(folder)
    assert written.manifest.granted and not written.manifest.reduced
    assert names(folder) == {SUMS, *FILES} and names(folder.parent) == {"cert"}
    assert (folder / "waivers.toml").read_text() == WAIVER
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    assert (folder / SUMS).read_text().splitlines() == [f"{hashes[name]}  {name}" for name in FILES]


def test_results_are_put_in_must_pass_order(tmp_path: Path) -> None:
    run = good_run()
    assert replace(run, results=run.results[::-1]).write(tmp_path / "cert").results == run.results


def test_a_run_cannot_grant_itself_a_level(tmp_path: Path) -> None:
    run = good_run().with_result("kv.scale", failed)
    written = replace(run, manifest=replace(run.manifest, granted=True)).write(tmp_path / "cert")
    assert not written.manifest.granted


def test_an_older_certificate_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "cert"
    good_run().with_result("kv.scale", failed).write(folder)
    before = (folder / SUMS).read_bytes()
    good_run().write(folder)
    assert (folder / SUMS).read_bytes() != before and names(tmp_path) == {"cert"}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "cert").mkdir()
    good_run().write(tmp_path / "cert")
    assert SUMS in names(tmp_path / "cert")


@pytest.mark.parametrize("present", [{"notes.txt"}, {SUMS, *FILES, "notes.txt"}, {"manifest.json"}])
def test_another_folder_is_left_alone(tmp_path: Path, present: set[str]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in present:
        (folder / name).write_text("mine")
    with pytest.raises(InputError, match="left alone"):
        good_run().write(folder)
    assert {name: (folder / name).read_text() for name in names(folder)} == dict.fromkeys(present, "mine")
    assert names(tmp_path) == {"mine"}


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_a_link_is_left_alone(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "cert"
    target.write_text("mine") if kind == "file" else target.symlink_to(tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        good_run().write(target)
    assert names(tmp_path) == {"cert"}


@pytest.mark.parametrize("older", [False, True])
def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: bool) -> None:
    folder = tmp_path / "cert"
    if older:
        good_run().write(folder)
    before = (folder / SUMS).read_bytes() if older else None
    renames: list[str] = []

    def rename(source: Path, target: Path) -> None:
        renames.append(str(target))
        if target == folder and len(renames) == 1 + older:
            raise OSError("disk full")
        real_rename(source, target)

    real_rename = os.rename
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="disk full"):
        good_run().with_result("kv.scale", failed).write(folder)
    assert names(tmp_path) == ({"cert"} if older else set())
    assert before is None or (folder / SUMS).read_bytes() == before


def test_a_malformed_waiver_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="waivers"):
        replace(good_run(), waivers="[[waiver]]\n").write(tmp_path / "cert")
    assert names(tmp_path) == set()
