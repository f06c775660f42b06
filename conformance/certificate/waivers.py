"""Known failures of an engine version, each with its public issue and its expiry; none may match everything.

A waived failure still runs: an unexpected pass fails, an entry that matches nothing fails, an expired one fails.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

from conformance.certificate.record import Result, Status
from conformance.clauses import CLAUSE_BY_ID
from vskipper.errors import InputError

FIELDS: Final = ("clause", "property", "scope", "issue", "evidence", "expires")
SCOPES: Final = ("runtime", "model")
WAIVED: Final = {Status.FAILED: Status.EXPECTED_FAILURE, Status.PASSED: Status.UNEXPECTED_PASS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """One entry. scope: `runtime`, and `model` where it is narrower. expires: the first day it no longer holds."""

    clause: str
    property: str
    scope: Mapping[str, str]
    issue: str
    evidence: str
    expires: date

    def matches(self, result: Result) -> bool:
        """Whether the result is the one that this entry speaks of."""
        here = {"runtime": result.runtime, "model": result.model}
        return (self.property, self.clause) == (result.property, result.clause) and self.scope.items() <= here.items()


def parse_waivers(text: str, where: str = "waivers.toml") -> tuple[Waiver, ...]:
    """Read `[[waiver]]` tables; raises InputError that names the entry and the field."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("waivers are not TOML", where=where, got=error, expected="[[waiver]] tables") from error
    entries = raw.pop("waiver", [])
    if raw or not isinstance(entries, list):
        raise InputError("waivers", where=where, got=", ".join(raw) or "waiver", expected="[[waiver]] tables only")
    return tuple(_waiver(entry, f"{where}, entry {number}") for number, entry in enumerate(entries, start=1))


def apply_waivers(waivers: Iterable[Waiver], results: Sequence[Result]) -> tuple[Result, ...]:
    """Turn a waived failure into an expected one, and a waived pass into an unexpected one; the rest stay."""
    known = tuple(waivers)
    return tuple(
        replace(result, status=WAIVED.get(result.status, result.status))
        if any(waiver.matches(result) for waiver in known)
        else result
        for result in results
    )


def waiver_problems(waivers: Sequence[Waiver], results: Sequence[Result], on: date) -> tuple[str, ...]:
    """One line for each entry that is expired on the day `on` or unused, and each expected failure that is not
    waived."""
    problems = []
    for waiver in waivers:
        name = f"waiver of {waiver.property} ({waiver.clause})"
        if waiver.expires <= on:
            problems.append(f"{name}: expired on {waiver.expires}, the run was on {on}")
        if not any(waiver.matches(result) and result.status == Status.EXPECTED_FAILURE for result in results):
            problems.append(f"{name}: matches no expected failure")
    for result in results:
        if result.status == Status.EXPECTED_FAILURE and not any(waiver.matches(result) for waiver in waivers):
            problems.append(f"{result.property} ({result.clause}): expected failure without a waiver")
    return tuple(problems)


def _waiver(entry: Any, where: str) -> Waiver:
    if not isinstance(entry, dict) or set(entry) != set(FIELDS):
        got = ", ".join(entry) if isinstance(entry, dict) else type(entry).__name__
        raise InputError("waiver fields", where=where, got=got, expected=", ".join(FIELDS))
    for name in ("clause", "property", "issue", "evidence"):
        if not isinstance(entry[name], str) or not entry[name].strip():
            raise InputError("waiver", where=f"{where}, {name}", got=repr(entry[name]), expected="a non-empty string")
    _check_clause(entry, where)
    _check_scope(entry["scope"], where)
    if not entry["issue"].startswith("https://"):
        raise InputError("waiver", where=f"{where}, issue", got=entry["issue"], expected="a public https:// address")
    if not isinstance(entry["expires"], date) or isinstance(entry["expires"], datetime):
        raise InputError("waiver", where=f"{where}, expires", got=entry["expires"], expected="a date: 2027-01-31")
    return Waiver(**entry)


def _check_clause(entry: Mapping[str, Any], where: str) -> None:
    if entry["clause"] not in CLAUSE_BY_ID:
        raise InputError("waiver", where=f"{where}, clause", got=entry["clause"], expected="a clause of the contract")
    if not set(entry["property"]).isdisjoint("*?[] "):
        raise InputError("waiver", where=f"{where}, property", got=entry["property"], expected="one property id")


def _check_scope(scope: Any, where: str) -> None:
    valid = isinstance(scope, dict) and "runtime" in scope and set(scope) <= set(SCOPES)
    if not valid or not all(isinstance(value, str) and value for value in scope.values()):
        raise InputError(
            "waiver",
            where=f"{where}, scope",
            got=repr(scope),
            expected='a table that names the runtime: { runtime = "...", model = "..." }',
        )
