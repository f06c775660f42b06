"""What the report's page shows, worked out from the records so that the template only lays it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from conformance.certificate.record import QUIET, UNSUPPORTED, Kill, Result, Status
from conformance.clauses import Clause, Level
from conformance.must_pass import MustPass
from vskipper.action import LETTERS, Action

CELL: Final = 14
GAP: Final = 2
TAPE_ROWS: Final = 96
ACTIONS: Final = (Action.RUN, Action.PROJECT_ONLY, Action.SKIP_ATTN, Action.SKIP_MLP)
# the worst status of a clause's properties is the clause's
SEVERITY: Final = (
    Status.FAILED,
    Status.UNEXPECTED_PASS,
    Status.BLOCKED,
    Status.VACUOUS,
    Status.EXPECTED_FAILURE,
    Status.PASSED,
    Status.UNSUPPORTED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseView:
    """One clause, its properties' results, and the worst of their statuses; `absent` when none was run."""

    clause: Clause
    status: str
    results: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault and one property. kind: killer, also, quiet, silent, wrong or absent; title: said on hover."""

    kind: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    kill: Kill
    ok: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """columns: clause and property. kinds: the cell kinds present."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[MatrixRow, ...]
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeBand:
    """All cells of one action as one SVG path. share: of the whole tape, in percent."""

    name: str
    path: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """labels: layer number and baseline of each line. Lengths in SVG units."""

    width: int
    height: int
    bands: tuple[TapeBand, ...]
    labels: tuple[tuple[str, int], ...]
    rows: int
    hidden_rows: int


def clause_views(level: Level, must_pass: MustPass, results: Sequence[Result]) -> tuple[ClauseView, ...]:
    """The level's clauses in the contract's order, each with its results in must-pass order."""
    clause_of = {need.property: need.clause for need in must_pass.requirements}
    views = []
    for clause in level.clauses:
        own = tuple(r for r in results if clause_of.get(r.property, r.clause) == clause.id)
        views.append(ClauseView(clause=clause, status=worst(own), results=own))
    return tuple(views)


def worst(results: Iterable[Result]) -> str:
    """The status that stands for all of them."""
    present = {result.status for result in results}
    return next((status.value for status in SEVERITY if status in present), "absent")


def passed(results: Iterable[Result]) -> int:
    return sum(result.status == Status.PASSED for result in results)


def killed_on(kills: Sequence[Kill]) -> str:
    """`, on torch and triton`: the runtimes that the faults were tried on, none where there is no fault."""
    names = list(dict.fromkeys(kill.runtime for kill in kills))
    return f", on {' and '.join(filter(None, [', '.join(names[:-1]), *names[-1:]]))}" if names else ""


def matrix_view(must_pass: MustPass, kills: Sequence[Kill]) -> Matrix:
    """Faults by properties, the columns in must-pass order."""
    needs = must_pass.requirements
    rows = tuple(
        MatrixRow(
            kill=kill,
            ok=kill.ok,
            cells=tuple(_cell(kill, need.property) for need in needs),
        )
        for kill in kills
    )
    return Matrix(
        columns=tuple((need.clause, need.property) for need in needs),
        rows=rows,
        kinds=frozenset(cell.kind for row in rows for cell in row.cells),
    )


def _cell(kill: Kill, property: str) -> Cell:
    outcome = kill.outcomes.get(property)
    said = "not run" if outcome is None else outcome.replace("killed:", "killed, reason ")
    if outcome == UNSUPPORTED:
        kind, note = "absent", ""
    elif property == kill.killer:
        right = outcome == f"killed:{kill.reason_expected}"
        kind, note = ("killer", "its killer") if right else ("wrong", f"expected {kill.reason_expected}")
    elif property in kill.quiet:
        kind, note = ("quiet", "as it must be") if outcome == QUIET else ("wrong", "expected quiet")
    else:
        kind, note = ("absent", "") if outcome is None else ("silent" if outcome == QUIET else "also", "")
    return Cell(kind=kind, title=f"{kill.fault} / {property}: {said}{f' ({note})' if note else ''}")


def tape_view(tape: Sequence[str], layers: Sequence[int]) -> Tape | None:
    """A picture of one pass: one line a routed layer, one column a row; None without a tape."""
    if not tape:
        return None
    rows = len(tape[0])
    shown = min(rows, TAPE_ROWS)
    step = CELL + GAP
    counts: Mapping[str, int] = Counter("".join(tape))
    bands = [
        TapeBand(
            name=action.name,
            path=_path(tape, LETTERS[action], shown, step),
            share=100 * counts[LETTERS[action]] / sum(counts.values()),
        )
        for action in ACTIONS
        if counts[LETTERS[action]]
    ]
    names = [f"L{layer}" for layer in layers] if len(layers) == len(tape) else [f"#{i}" for i in range(len(tape))]
    return Tape(
        width=shown * step - GAP,
        height=len(tape) * step - GAP,
        bands=tuple(bands),
        labels=tuple((name, index * step + CELL - 3) for index, name in enumerate(names)),
        rows=rows,
        hidden_rows=rows - shown,
    )


def _path(tape: Sequence[str], letter: str, shown: int, step: int) -> str:
    return "".join(
        f"M{column * step} {line * step}h{CELL}v{CELL}h-{CELL}z"
        for line, actions in enumerate(tape)
        for column, action in enumerate(actions[:shown])
        if action == letter
    )


def duration(seconds: float) -> str:
    """`0.8 s`, `42 s` or `7 min 12 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
