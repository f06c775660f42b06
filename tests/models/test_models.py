"""Models by name: what is known, what is not, and which layers are routed."""

from __future__ import annotations

from pathlib import Path

import pytest

from vskipper.checkpoint import open_checkpoint
from vskipper.errors import InputError
from vskipper.models import default_delta, default_routed_layers, resolve


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VSKIPPER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["tiny-llama", "small-qwen3"])
def test_a_known_name_is_built_in_the_cache(cache: Path, name: str) -> None:
    assert resolve(name) == cache / name
    assert default_delta(name) == cache / name / "flexidepth.safetensors"
    checkpoint = open_checkpoint(resolve(name), default_delta(name))
    assert checkpoint.routed_layers == default_routed_layers(name, checkpoint.spec) == (2, 3, 4)


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert resolve(tmp_path) == resolve(str(tmp_path)) == tmp_path
    assert default_delta(tmp_path) is None


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(
        InputError, match=r"'smollm3', expected one of smollm2, tiny-llama, .*small-qwen3, or a model folder"
    ):
        resolve("smollm3")


def test_a_file_for_a_model_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("")
    with pytest.raises(InputError, match=r"model\.gguf', which is a file, expected .* or a model folder"):
        resolve(tmp_path / "model.gguf")


def test_routed_layers_of_other_models_are_the_upper_half() -> None:
    spec = open_checkpoint(resolve("tiny-llama")).spec
    assert default_routed_layers("mine", spec) == (3, 4, 5)
    assert default_routed_layers("smollm2", spec) == (*range(2, 24), 25, 26, 27, 28)
