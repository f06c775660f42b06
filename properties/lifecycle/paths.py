"""The way of one request through the passes of a run: where it began each time, and in which pieces it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from properties.lifecycle.engine import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Consecutive rows in one pass: `count` of them from row `row` and position `first` on."""

    step: int
    row: int
    first: int
    count: int

    @property
    def end(self) -> int:
        return self.first + self.count


# the pieces between admission or a retraction and the next one
Path = tuple[tuple[Piece, ...], ...]


def paths(history: History) -> Mapping[str, Path]:
    """By request, of those of which a row ran."""
    found: dict[str, list[list[Piece]]] = {}
    taken: dict[str, list[int]] = {}
    for iteration, name in history.retracted:
        taken.setdefault(name, []).append(iteration)
    for step, each in enumerate(history.passes):
        for name, row, first, count in _pieces(history, step):
            turns = found.setdefault(name, [])
            # a request does not run again in the iteration that took its KV
            number = sum(iteration <= each.iteration for iteration in taken.get(name, ()))
            while len(turns) <= number:
                turns.append([])
            turns[number].append(Piece(step=step, row=row, first=first, count=count))
    return {name: tuple(tuple(turn) for turn in turns if turn) for name, turns in found.items()}


def _pieces(history: History, step: int) -> list[tuple[str, int, int, int]]:
    """(request, row, first position, rows): as the engine laid them out, one request after the other."""
    pieces: list[tuple[str, int, int, int]] = []
    for row, each in enumerate(history.passes[step].rows):
        if pieces and pieces[-1][0] == each.request and pieces[-1][2] + pieces[-1][3] == each.position:
            name, start, first, count = pieces[-1]
            pieces[-1] = (name, start, first, count + 1)
        else:
            pieces.append((each.request, row, each.position, 1))
    return pieces
