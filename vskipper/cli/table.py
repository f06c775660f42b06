"""A certification on the terminal: a table by clause, the failures, the verdict."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from conformance.certificate.folder import Certificate
    from conformance.certificate.record import Result

STYLES: Final = {"passed": "green", "unsupported": "dim", "absent": "dim", "expected_failure": "yellow"}
POLICY_CLAUSES: Final = ("POL-1", "POL-2")
SHOWN: Final = 3
TEXT_WIDTH: Final = 64
TABLE_WIDTH: Final = 120


def print_outcome(certificate: Certificate, folder: Path) -> None:
    """Everything a person should see, on standard output."""
    console = Console(highlight=False, soft_wrap=True)
    # in a narrower window rich would cut every column rather than let lines wrap
    console.width = max(console.width, TABLE_WIDTH)
    console.print(clause_table(certificate))
    failures = failures_to_print(certificate.results)
    for result in failures[:SHOWN]:
        _print_failure(console, result)
    for result in failures[SHOWN:]:
        console.print(Text(result.failure.line if result.failure else "", style="red"))
    console.print()
    kills = certificate.kills
    if kills:
        from conformance.certificate.report_view import killed_on

        console.print(f"seeded faults killed: {sum(kill.ok for kill in kills)} of {len(kills)}{killed_on(kills)}")
    for reason in reasons_to_print(certificate):
        console.print(Text(reason))
    granted, reduced = certificate.manifest.granted, certificate.manifest.reduced
    verdict = f"{certificate.manifest.level.title()} {'granted' if granted else 'not granted'}"
    console.print(Text(f"{verdict}{', REDUCED' if reduced else ''}", style="bold green" if granted else "bold red"))
    minutes, seconds = divmod(round(certificate.manifest.seconds), 60)
    console.print(Text(f"total time: {minutes} min {seconds:02d} s"))
    again = f"vskipper verify {shlex.quote(str(folder))}"
    console.print(Text(f"certificate: {folder} (open report.html; re-check: {again})"))


def clause_table(certificate: Certificate) -> Table:
    """One line a clause: how many of its properties passed, examples, the least vacuity counter, the worst margin."""
    from conformance.clauses import LEVEL_BY_ID
    from conformance.must_pass import load_must_pass

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("clause", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for name in ("passed", "examples", "rarest case", "margin"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what holds", no_wrap=True)
    needs = load_must_pass(certificate.manifest.level).requirements
    declared = {need.property: (*need.counters, *need.conditional) for need in needs}
    for clause in LEVEL_BY_ID[certificate.manifest.level].clauses:
        # rich would give up the other columns first
        text = shorten(clause.text, TEXT_WIDTH, placeholder=" …")
        table.add_row(clause.id, *_cells([r for r in certificate.results if r.clause == clause.id], declared), text)
    return table


def policy_failure(results: Iterable[Result]) -> Result | None:
    """The first failure of the policy itself; every other one follows from it."""
    return next((r for r in results if r.status == "failed" and r.failure and r.clause in POLICY_CLAUSES), None)


def failures_to_print(results: Sequence[Result]) -> tuple[Result, ...]:
    """One alone where the policy is at fault, else the failures that differ in their line."""
    at_fault = policy_failure(results)
    if at_fault is not None:
        return (at_fault,)
    by_line = {r.failure.line: r for r in reversed(results) if r.status == "failed" and r.failure is not None}
    return tuple(reversed(by_line.values()))


def reasons_to_print(certificate: Certificate) -> tuple[str, ...]:
    """Why nothing is granted, where neither the table nor a failure tells it; the first few, then their number."""
    results = certificate.results
    if policy_failure(results) is not None:
        return ()
    told = {f"{result.property} ({result.clause}): {result.status.value.replace('_', ' ')}" for result in results}
    untold = [reason for reason in certificate.decision.reasons if reason not in told]
    more = [f"and {len(untold) - SHOWN} more reasons in the report"] if len(untold) > SHOWN else []
    return (*untold[:SHOWN], *more)


def _cells(results: Iterable[Result], declared: Mapping[str, Sequence[str]]) -> tuple[Text | str, ...]:
    from conformance.certificate.report_view import passed, worst

    own = list(results)
    status = worst(own)
    counts = (result.counters.get(name) for result in own for name in declared.get(result.property, ()))
    rarest = min((count for count in counts if count is not None), default=None)
    margins = [result.margin for result in own if result.margin is not None]
    return (
        Text(status.replace("_", " "), style=STYLES.get(status, "bold red")),
        f"{passed(own)}/{len(own)}",
        f"{sum(result.examples for result in own):,}",
        "" if rarest is None else f"{rarest:,}",
        f"{max(margins):.2f}" if margins else "",
    )


def _print_failure(console: Console, result: Result) -> None:
    failure = result.failure
    assert failure is not None
    console.print()
    console.print(Text(failure.line, style="red"))
    for name, text in (("shrunk tape", failure.tape), ("plan", failure.plan), ("reproduce", failure.repro)):
        if text:
            console.print(Text(f"  {name}:\n" + "\n".join(f"    {line}" for line in text.splitlines())))
