"""The packaged must-pass lists: their format, and that they are the registries' own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance import must_pass
from conformance.clauses import LEVEL_BY_ID
from conformance.must_pass import Requirement, SeededFault, load_must_pass, place_on, render
from conformance.must_pass_lists import lists as lists_of_registries
from tests.conformance.sample import FAULTS, MUST_PASS, NEEDS
from vskipper.errors import InputError


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(must_pass, "FOLDER", tmp_path)
    return tmp_path


def test_a_list_reads_back_as_it_was_rendered(lists: Path) -> None:
    (lists / "core.txt").write_text(render("properties", NEEDS))
    (lists / "core_faults.txt").write_text(render("faults", FAULTS))
    assert load_must_pass("core") == MUST_PASS


def test_an_optional_property_and_an_empty_quiet_list_read_back(lists: Path) -> None:
    need = Requirement(
        property="a.b", clause="IN-1", examples=3, counters=("seen",), optional=True, conditional=("met",)
    )
    fault = SeededFault(
        fault="f",
        killer="a.b",
        reason="r",
        quiet=(),
        places=("torch/tiny-llama", "sglang/tiny-llama"),
        only_named=True,
        backends=("triton", "fa3"),
    )
    (lists / "core.txt").write_text(render("", [need]))
    (lists / "core_faults.txt").write_text(render("", [fault]))
    assert load_must_pass("core").requirements == (need,)
    assert load_must_pass("core").faults == (fault,)


@pytest.mark.parametrize("level", ["graph", "../core", "", "core_faults"])
def test_a_level_without_a_list_is_refused_with_those_that_have_one(lists: Path, level: str) -> None:
    (lists / "core.txt").write_text("")
    (lists / "core_faults.txt").write_text("")
    with pytest.raises(InputError, match=r"expected core$"):
        load_must_pass(level)


@pytest.mark.parametrize(
    "line", ["a.b", "a.b KV-1 x seen", "a.b KV-1 3 seen asked maybe", "a.b KV-1 3 seen asked bits maybe"]
)
def test_a_malformed_line_is_named(lists: Path, line: str) -> None:
    (lists / "core.txt").write_text(f"# head\n{line}\n")
    with pytest.raises(InputError, match=r"core\.txt:2"):
        load_must_pass("core")


@pytest.mark.parametrize(
    "line", ["f", "f a.b r -", "f a.b r - torch", "f a.b r - t/m on=", "f a.b r - t/m on=a on=b", "f a.b r - t/m other"]
)
def test_a_malformed_fault_is_named(lists: Path, line: str) -> None:
    (lists / "core.txt").write_text("")
    (lists / "core_faults.txt").write_text(f"# head\n\n{line}\n")
    with pytest.raises(InputError, match=r"core_faults\.txt:3"):
        load_must_pass("core")


def test_a_fault_bites_on_the_backends_that_it_names() -> None:
    anywhere = replace(FAULTS[0], backends=())
    named = replace(FAULTS[1], backends=("triton", "fa3"))
    must_pass = replace(MUST_PASS, faults=(anywhere, named))
    assert must_pass.faults_on("fa3") == (anywhere, named)
    assert must_pass.faults_on("flashinfer") == must_pass.faults_on(None) == (anywhere,)


def test_a_fault_is_tried_where_it_bites_on_what_is_certified_else_at_its_own_place() -> None:
    places = ("torch/tiny-llama", "sglang/tiny-llama")
    assert place_on(places, "sglang") == "sglang/tiny-llama"
    assert place_on(places, "server") == place_on(places, "sglang-cuda") == "torch/tiny-llama"


@pytest.mark.parametrize("name", sorted(lists_of_registries()))
def test_the_packaged_lists_are_the_registries(name: str) -> None:
    assert (must_pass.FOLDER / name).read_text() == lists_of_registries()[name]


def test_the_packaged_list_covers_every_clause_of_its_level() -> None:
    assert {need.clause for need in load_must_pass("core").requirements} == {
        clause.id for clause in LEVEL_BY_ID["core"].clauses
    }
