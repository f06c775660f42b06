"""What the tests of starting a server share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A folder with the fake engine in it."""
    folder = tmp_path / "engine" / "sglang"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("fake_launch_server.py"), folder / "launch_server.py")
    return folder.parent
