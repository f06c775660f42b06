"""`vskipper` as a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder the user stands in."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def environment(*first: Path) -> dict[str, str]:
    path = os.pathsep.join(str(entry) for entry in (*first, ROOT))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "160", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def cli(home: Path) -> Cli:
    """Run the real command line."""

    def run(*arguments: str, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vskipper", *arguments]
        return subprocess.run(command, cwd=home, env=environment(*path), capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def faked(home: Path, tmp_path: Path) -> Cli:
    """Run the command line with a fake suite behind it."""
    lists = tmp_path / "lists"
    lists.mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tests" / "cli" / "drive.py"), str(lists), *arguments]
        return subprocess.run(command, cwd=home, env=environment(), capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def without_torch(tmp_path: Path) -> Path:
    """A folder whose torch, numpy and triton cannot be imported."""
    for name in ("torch", "numpy", "triton"):
        (tmp_path / "stubs" / name).mkdir(parents=True)
        (tmp_path / "stubs" / name / "__init__.py").write_text(f"raise ImportError('{name} is not there')")
    return tmp_path / "stubs"
