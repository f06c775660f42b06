"""Waivers: narrow, dated, and used, or an error."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from conformance.certificate.record import Status
from conformance.certificate.waivers import apply_waivers, parse_waivers, waiver_problems
from tests.conformance.sample import WAIVER, failed, good_run
from vskipper.errors import InputError

RUN = good_run()
FOOTPRINT = RUN.results[1]
TODAY = date(2026, 1, 31)


def test_a_waived_failure_becomes_an_expected_one_and_nothing_else_changes() -> None:
    waivers = parse_waivers(WAIVER)
    results = apply_waivers(waivers, [failed(FOOTPRINT), failed(RUN.results[0])])
    assert [result.status for result in results] == [Status.EXPECTED_FAILURE, Status.FAILED]
    assert waiver_problems(waivers, results, TODAY) == ()
    assert apply_waivers(waivers, results) == results


def test_a_waived_pass_is_unexpected() -> None:
    assert apply_waivers(parse_waivers(WAIVER), [FOOTPRINT])[0].status == Status.UNEXPECTED_PASS


@pytest.mark.parametrize("change", [{"runtime": "sglang"}, {"property": "kv.other"}, {"clause": "KV-1"}])
def test_a_waiver_that_matches_nothing_is_a_problem(change: dict[str, Any]) -> None:
    waivers = parse_waivers(WAIVER)
    results = apply_waivers(waivers, [replace(failed(FOOTPRINT), **change)])
    assert results[0].status == Status.FAILED
    assert waiver_problems(waivers, results, TODAY) == ("waiver of kv.footprint (KV-2): matches no expected failure",)


def test_a_narrower_scope_excludes_other_models() -> None:
    narrow = WAIVER.replace('runtime = "torch"', 'runtime = "torch", model = "smollm2"')
    assert apply_waivers(parse_waivers(narrow), [failed(FOOTPRINT)])[0].status == Status.FAILED


def test_a_waiver_expires_on_its_day() -> None:
    waivers = parse_waivers(WAIVER)
    results = apply_waivers(waivers, [failed(FOOTPRINT)])
    assert waiver_problems(waivers, results, date(2026, 12, 31)) == ()
    assert "expired on 2027-01-01" in waiver_problems(waivers, results, date(2027, 1, 1))[0]


def test_an_expected_failure_needs_a_waiver() -> None:
    results = [replace(failed(FOOTPRINT), status=Status.EXPECTED_FAILURE)]
    assert waiver_problems((), results, TODAY) == ("kv.footprint (KV-2): expected failure without a waiver",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[waiver]]", "[waiver]", "tables only"),
        ("[[waiver]]", "stray = 1\n[[waiver]]", "got stray"),
        ("[[waiver]]", "[[waiver", "not TOML"),
        ('issue = "https://github.com/sgl-project/sglang/issues/1"\n', "", "waiver fields"),
        ("evidence =", 'note = "x"\nevidence =', "waiver fields"),
        ("https://github.com", "ask me: github.com", "issue"),
        ('"300 examples on 2026-01-10"', '" "', "evidence"),
        ("2027-01-01", '"never"', "expires"),
        ("2027-01-01", "2027-01-01T00:00:00", "expires"),
        ('"KV-2"', '"KV-99"', "clause"),
        ('"kv.footprint"', '"kv.*"', "one property id"),
        ('{ runtime = "torch" }', "{}", "scope"),
        ('{ runtime = "torch" }', '{ model = "smollm2" }', "scope"),
        ('{ runtime = "torch" }', '{ runtime = "torch", clause = "KV-2" }', "scope"),
        ('{ runtime = "torch" }', '"everything"', "scope"),
    ],
)
def test_a_malformed_waiver_is_refused_by_field(old: str, new: str, said: str) -> None:
    assert old in WAIVER
    with pytest.raises(InputError, match="waiver") as caught:
        parse_waivers(WAIVER.replace(old, new, 1))
    assert said in str(caught.value)
