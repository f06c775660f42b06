"""The plugin's configuration: what is read is what was meant, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vskipper.errors import InputError
from vskipper.sglang.config import VARIABLE, EngineConfig, from_environment, parse

WHOLE = EngineConfig(
    policy="random-skip", settings={"r": 0.5}, delta="d.pt", routed_layers=(2, 3), mode="by-request", seed=7
)


def test_a_configuration_reads_back_as_it_was_written() -> None:
    assert parse(WHOLE.to_json(), "here") == WHOLE
    assert from_environment(WHOLE.environment()) == WHOLE


def test_a_file_may_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "plugin.json"
    path.write_text(WHOLE.to_json())
    assert from_environment({VARIABLE: str(path)}) == WHOLE


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: "  "}])
def test_unset_is_off(environment: dict[str, str]) -> None:
    assert from_environment(environment) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"policy": "x", "polcy": 1}', "unknown key.*polcy.*policy, settings"),
        ('{"mode": "routed"}', "policy.*none"),
        ("{", "JSON"),
        ('{"policy": ""}', "policy"),
        ('{"policy": "x", "mode": "fast"}', "mode.*'fast'.*dense, routed, by-request"),
        ('{"policy": "x", "seed": -1}', "seed"),
        ('{"policy": "x", "seed": true}', "seed"),
        ('{"policy": "x", "settings": []}', "settings"),
        ('{"policy": "x", "routed_layers": [3, 2]}', "routed_layers"),
        ('{"policy": "x", "routed_layers": []}', "routed_layers"),
        ('{"policy": "x", "routed_layers": 3}', "routed_layers"),
        ('{"policy": "x", "delta": 3}', "delta"),
    ],
)
def test_what_is_wrong_is_named(given: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        from_environment({VARIABLE: given})


@pytest.mark.parametrize("name", ["nowhere.json", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=name):
        from_environment({VARIABLE: str(tmp_path / name)})


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps(["policy"]))
    with pytest.raises(InputError, match="list"):
        from_environment({VARIABLE: str(tmp_path / "list.json")})
