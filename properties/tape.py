"""Strategies for forced routes, from the plain patterns to random ones, and how a tape is shown to people."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from reference.action import PROJECT_ONLY, RUN
from reference.plan import TapePlan
from vskipper.action import LETTERS, Action

Lines = tuple[tuple[int, ...], ...]
# simplest first: a failing tape shrinks towards all RUN
_PREFERENCE = (int(Action.RUN), int(Action.PROJECT_ONLY), int(Action.SKIP_ATTN), int(Action.SKIP_MLP))
PATTERNS = ("constant", "alternating", "one_row", "empty_cohort", "random")


@st.composite
def action_lines(draw: st.DrawFn, layers: int, rows: int, actions: Collection[int]) -> Lines:
    """Action codes [layers][rows] of one pass, in one of PATTERNS."""
    allowed = [action for action in _PREFERENCE if action in actions]
    pick = st.sampled_from(allowed)
    pattern = draw(st.sampled_from(PATTERNS))
    if pattern == "constant":
        return ((draw(pick),) * rows,) * layers
    if pattern == "alternating":
        first, second = draw(pick), draw(pick)
        return tuple(tuple((first, second)[(row + layer) % 2] for row in range(rows)) for layer in range(layers))
    if pattern == "one_row":
        usual, odd, place = draw(pick), draw(pick), draw(st.integers(0, rows - 1))
        return (tuple(odd if row == place else usual for row in range(rows)),) * layers
    lines = [draw(st.lists(pick, min_size=rows, max_size=rows)) for _ in range(layers)]
    if pattern == "empty_cohort" and len(allowed) > 1:
        layer, missing, instead = draw(st.integers(0, layers - 1)), *draw(st.permutations(allowed))[:2]
        lines[layer] = [instead if action == missing else action for action in lines[layer]]
    return tuple(map(tuple, lines))


def eighths_of(lines: Lines, spread: int) -> Lines:
    """w * 8 of every row: RUN 5..8, PROJECT_ONLY 0..4, others 8. spread 0: w is 1 and 0; else neighbours differ."""

    def weight(layer: int, row: int, action: int) -> int:
        place = 3 * layer + row + spread
        if action == RUN:
            return 8 - place % 4 if spread else 8
        if action == PROJECT_ONLY:
            return place % 5 if spread else 0
        return 8

    return tuple(tuple(weight(i, row, a) for row, a in enumerate(line)) for i, line in enumerate(lines))


@st.composite
def tapes(
    draw: st.DrawFn, layers: int, rows: int, actions: Collection[int], weighted: SearchStrategy[bool] | None = None
) -> TapePlan:
    """A TapePlan of `rows` rows; gate mode drawn from `weighted` (both by default)."""
    lines = draw(action_lines(layers, rows, actions))
    if not draw(st.booleans() if weighted is None else weighted):
        return TapePlan(actions=lines)
    return TapePlan(actions=lines, eighths=eighths_of(lines, draw(st.integers(0, 7))))


def constant(layers: int, rows: int, action: int, eighths: int | None = None) -> TapePlan:
    """Every row the same."""
    weights = None if eighths is None else ((eighths,) * rows,) * layers
    return TapePlan(actions=((action,) * rows,) * layers, eighths=weights)


def show(tape: TapePlan, layers: Sequence[int] | None = None) -> str:
    """`L2:RPRPP L3:PPRRP`: one word a routed layer, one letter a row."""
    numbers = range(len(tape.actions)) if layers is None else layers
    words = (
        f"L{number}:{''.join(LETTERS[Action(action)] for action in line)}"
        for number, line in zip(numbers, tape.actions, strict=True)
    )
    return " ".join(words)
