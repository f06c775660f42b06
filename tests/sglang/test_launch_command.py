"""What starts SGLang's server: its command line, its environment, and the plugin's entry point."""

from __future__ import annotations

import os
import sys
import tomllib
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from vskipper.models import resolve
from vskipper.sglang.launch.command import ENTRY_POINT, GROUP, server_command, server_environment

ROOT = Path(__file__).resolve().parents[2]


def test_it_is_the_installed_package_s_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    checkout = Distribution.at(next(ENTRY_POINT.glob("*.dist-info")))
    assert {point.name: point.value for point in checkout.entry_points} == project["entry-points"][GROUP]


@pytest.fixture
def engine_present(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(engine))
    monkeypatch.delitem(sys.modules, "sglang", raising=False)


@pytest.mark.usefixtures("engine_present")
def test_without_a_configuration_the_plugin_is_off() -> None:
    made = server_environment(None, [], {"VSKIPPER_CONFIG": "{}", "HOME": "/root"})
    assert made.keys() == {"HOME", "PYTHONPATH"}


@pytest.mark.usefixtures("engine_present")
def test_on_a_cpu_the_stand_ins_come_along() -> None:
    made = server_environment(None, ["--device", "cpu"], {})
    assert made["SGLANG_USE_CPU_ENGINE"] == "1"
    assert Path(made["PYTHONPATH"].split(os.pathsep)[0], "sitecustomize.py").is_file()
    assert "SGLANG_USE_CPU_ENGINE" not in server_environment(None, ["--device", "cuda"], {})


@pytest.mark.parametrize(
    ("arguments", "added"),
    [
        (["--device", "cuda"], []),
        (["--device", "cpu"], ["--attention-backend", "torch_native"]),
        (["--device=cpu", "--attention-backend", "triton"], []),
    ],
)
def test_a_cpu_without_its_kernels_gets_attention_that_runs(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], added: list[str]
) -> None:
    monkeypatch.setattr("vskipper.sglang.launch.command.attention_present", lambda: False)
    chosen = ["--host", "127.0.0.1", "--port", "30000"]
    command = server_command("hub/model", arguments)
    assert command[3:] == ["--model-path", "hub/model", *chosen, *added, *arguments]


def test_a_model_without_a_tokenizer_of_ours_needs_none() -> None:
    assert "--skip-tokenizer-init" in server_command("tiny-qwen3", [])
    assert "--skip-tokenizer-init" not in server_command(str(resolve("tiny-qwen3")), [])
