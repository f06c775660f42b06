"""The wheel: what it puts into site-packages, and that it certifies from a folder of the user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vskipper.suite import PACKAGES

ROOT = Path(__file__).parents[2]
GENERIC = {"reference", "properties", "conformance", "gpu_tests", "tests"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages folder that holds the wheel and nothing else."""
    built, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built], cwd=ROOT, check=True)
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(install, check=True)
    return site


def run(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_no_generic_name_reaches_site_packages(site: Path) -> None:
    names = {path.name for path in site.iterdir()}
    assert "vskipper" in names
    assert not names & GENERIC
    assert {path.name for path in (site / "vskipper" / "_suite").iterdir()} == set(PACKAGES)


def test_it_certifies_from_another_folder(site: Path, tmp_path: Path) -> None:
    options = ("--model", "tiny-llama", "--examples", "2", "--no-faults", "--workers", "0", "--out", "certificate")
    ran = run(site, tmp_path, "vskipper", "certify", "random-skip", *options)
    assert "Core not granted, REDUCED" in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 1
    verdict = run(site, tmp_path, "vskipper", "verify", "certificate", "--json")
    assert json.loads(verdict.stdout)["level"] == "Core", verdict.stdout + verdict.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["certificate"]
    found = subprocess.run(
        [sys.executable, "-c", "from vskipper.suite import suite_root; print(suite_root())"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == site / "vskipper" / "_suite"
