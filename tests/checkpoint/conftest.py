from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoint.folders import copied
from vskipper.models import seeded


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return seeded.build("tiny-llama", tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of tiny-llama that a test may break; its delta lies in it as flexidepth.safetensors."""
    return copied(tiny_folder, tmp_path / "model")
