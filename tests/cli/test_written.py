"""What becomes of a run whose certificate its place does not take."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.certificate import folder
from conformance.certificate.folder import check_target
from conformance.certificate.verify import verify
from tests.cli.conftest import Cli
from tests.conformance.sample import MUST_PASS, good_run
from vskipper.cli.written import write
from vskipper.errors import InputError


@pytest.fixture
def record() -> dict[str, Any]:
    run = good_run()
    return {
        "manifest": run.manifest.to_json(),
        "results": [result.to_json() for result in run.results],
        "kills": [kill.to_json() for kill in run.kills],
        "waivers": run.waivers,
    }


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Places whose disk is full when a certificate is renamed into them; $TMPDIR is the test's."""
    places: list[Path] = []
    swap = folder._swap

    def swap_or_not(staging: Path, target: Path) -> None:
        if any(target.is_relative_to(place) for place in places):
            raise OSError(errno.ENOSPC, "No space left on device", str(staging))
        swap(staging, target)

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(folder, "_swap", swap_or_not)
    monkeypatch.setattr("conformance.certificate.folder.load_must_pass", lambda level: MUST_PASS)
    return places


def test_a_full_disk_leaves_the_certificate_in_a_place_that_is_named(
    record: dict[str, Any], full: list[Path], tmp_path: Path
) -> None:
    full.append(tmp_path / "out")
    with pytest.raises(
        InputError, match=r"got No space left on device, expected .*; the certificate is kept in"
    ) as told:
        write(record, tmp_path / "out" / "cert")
    assert told.value.where == str(tmp_path / "out" / "cert") and "\n" not in str(told.value)
    kept = Path(str(told.value).rpartition(" ")[2])
    assert kept.is_relative_to(tmp_path / "temporary") and verify(kept, MUST_PASS).ok
    assert list((tmp_path / "out").iterdir()) == []


def test_where_no_disk_takes_it_the_record_is_printed(
    record: dict[str, Any], full: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full.append(tmp_path)
    with pytest.raises(InputError, match="what the run recorded is on standard output"):
        write(record, tmp_path / "cert")
    assert json.loads(capsys.readouterr().out) == record
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_place_that_is_taken_meanwhile_loses_nothing(faked: Cli, home: Path) -> None:
    done = faked("certify", "walled", "--out", "cert")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"certificate cannot be written [{home}/cert]: got not a folder, expected a place to write in" in done.stderr
    kept = Path(done.stderr.split()[-1])
    try:
        assert faked("verify", str(kept)).returncode == 0
    finally:
        shutil.rmtree(kept.parent)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", place], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_without_room_is_refused_before_the_run(small: Path) -> None:
    with pytest.raises(InputError, match=r"certificate folder \[.*/small/cert\]: got No space left on device"):
        check_target(small / "cert")
    assert list(small.iterdir()) == []


def test_output_that_is_not_taken_is_one_line() -> None:
    command = "import sys; from vskipper.cli.main import run; sys.exit(run(['--help']))"
    with Path("/dev/full").open("w") as sink:
        done = subprocess.run(
            [sys.executable, "-c", command], stdout=sink, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and "No space left on device" in done.stderr
