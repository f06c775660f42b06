"""`vskipper probe`: whether vSkipper fits an SGLang, installed, unpacked or a wheel; imports neither it nor torch."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from vskipper.cli.values import filled_path

if TYPE_CHECKING:
    from rich.table import Table

    from vskipper.sglang.probe import ProbeReport, Seam

NEEDS: Final = {"always": "yes", "graphs": "for graphs", "recorded": "recorded only"}
WIDTH: Final = 1000


def probe(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH",
            parser=str,
            callback=filled_path,
            help="A folder with sglang/ in it, sglang itself or a wheel; default: installed.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the seams as JSON.")] = False,
) -> int:
    """Name the shape of each place of SGLang that vSkipper patches or relies on. Exit code 0 when vSkipper knows and
    serves all that it needs, 1 when it does not, 2 when there is no SGLang at PATH.

    Shapes needed for captured graphs do not decide: without them vSkipper serves with graphs disabled.
    """
    from vskipper.sglang.probe import installed_root, probe_tree

    report = probe_tree(path or installed_root())
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        print_report(report)
    return 0 if report.supported else 1


def print_report(report: ProbeReport) -> None:
    """For people: a table by area, what cannot be used, the verdict."""
    from rich.console import Console

    # rich would cut a column where lines are to wrap
    console = Console(highlight=False, markup=False, soft_wrap=True, width=WIDTH)
    console.print(seam_table(report))
    for seam in report.seams:
        if seam.served:
            continue
        console.print(f"\n{seam.name}: {seam.word}", style="red" if seam.needed else "yellow")
        for line in explain(seam):
            console.print(f"  {line}")
    console.print(f"\n{verdict(report)}")


def seam_table(report: ProbeReport) -> Table:
    """One line a seam, under the name of its area."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("seam", "shape", "needed", "where"):
        table.add_column(column, no_wrap=True)
    for area, seams in groupby(report.seams, key=lambda seam: seam.area):
        table.add_row(Text(area, style="bold"))
        for seam in seams:
            known = "dim" if seam.need == "recorded" else ""
            style = known if seam.served else "red" if seam.needed else "yellow"
            table.add_row(
                *[Text(cell, style=style) for cell in (f"  {seam.name}", seam.word, NEEDS[seam.need], seam.where)]
            )
    return table


def explain(seam: Seam) -> list[str]:
    """What vSkipper does at a seam that it cannot use, what it found and what it looked for."""
    return [
        f"there vSkipper {seam.use}",
        f"at {seam.where}: {seam.detail}",
        f"expected: {seam.expected}",
    ]


def verdict(report: ProbeReport) -> str:
    """One line."""
    where = f"SGLang {report.version} at {report.root}"
    unusable = report.unusable()
    if unusable:
        return f"{where}: not supported, for {', '.join(seam.name for seam in unusable)}"
    needed = sum(seam.needed for seam in report.seams)
    without = ", ".join(seam.name for seam in report.unusable(graphs=True))
    graphs = f"not with captured graphs, for {without}" if without else "also with captured graphs"
    return f"{where}: supported ({needed} needed seams known), {graphs}"
