"""Known failures by engine version: every file is in order, and a run is told of those that it can meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import expected
from conformance.certificate.waivers import parse_waivers
from conformance.expected import expected_in, known_failures
from conformance.must_pass import load_must_pass
from tests.conformance.sample import WAIVER
from vskipper.errors import InputError

CORE = load_must_pass("core")
KNOWN = parse_waivers(WAIVER.replace('"torch"', '"sglang"'))


@pytest.mark.parametrize("file", sorted(expected.FOLDER.iterdir()), ids=lambda file: file.stem)
def test_every_file_is_one_version_s_and_in_order(file: Path) -> None:
    version = file.stem.removeprefix("sglang-")
    assert file.name == f"sglang-{version}.toml"
    assert known_failures(version) == parse_waivers(file.read_text())


def test_every_version_of_the_matrix_has_a_file() -> None:
    matrix = ("0.5.11", "0.5.13", "0.5.15", "0.5.16", "0.5.18", "0.5.20", "0.5.22", "0.5.23")
    assert {file.stem for file in expected.FOLDER.iterdir()} == {f"sglang-{version}" for version in matrix}


@pytest.mark.parametrize("version", [None, "0.0.1"])
def test_without_an_engine_or_a_file_nothing_is_known(version: str | None) -> None:
    assert known_failures(version) == ()


def test_a_file_out_of_order_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "FOLDER", tmp_path)
    (tmp_path / "sglang-0.5.16.toml").write_text(WAIVER.replace('issue = "https', 'issue = "http'))
    with pytest.raises(InputError, match=r"sglang-0\.5\.16\.toml, entry 1, issue"):
        known_failures("0.5.16")


def test_what_a_run_can_meet_is_handed_on_unchanged() -> None:
    assert parse_waivers(expected_in(KNOWN, CORE, "sglang", "tiny-llama")) == KNOWN


@pytest.mark.parametrize(
    ("level", "runtime", "scope"),
    [
        ("lifecycle", "sglang", '{ runtime = "sglang" }'),
        ("core", "torch", '{ runtime = "sglang" }'),
        ("core", "sglang", '{ runtime = "sglang-cuda" }'),
        ("core", "sglang", '{ runtime = "sglang", model = "smollm2" }'),
    ],
)
def test_what_it_cannot_meet_is_left_out(level: str, runtime: str, scope: str) -> None:
    waivers = parse_waivers(WAIVER.replace('{ runtime = "torch" }', scope))
    assert expected_in(waivers, load_must_pass(level), runtime, "tiny-llama") == ""
