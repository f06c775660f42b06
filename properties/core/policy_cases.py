"""Rows for a policy alone, as serving may hand them over: mostly few, in some cases more than a tile or a batch holds,
at every position that the model has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.case import RowsCase
from properties.property import Subject
from vskipper.policy import Phase

# of a wide case
REQUESTS = 10
LONGEST = 70
ROWS = 130
# cases with more rows than this are wide: a tile of most kernels
TILE = 16
NEAR = (0, 1, 5, 15, 16, 63)


def rows_cases(subject: Subject, most: int = 4) -> SearchStrategy[RowsCase]:
    """Up to three requests of one to `most` rows, and in a share of cases up to REQUESTS, of LONGEST rows each and ROWS
    in all; in any order, only in the phases that the policy declares."""
    phases = subject.make_policy(subject.model.dtype).capabilities.phases
    return _rows_cases(frozenset(phases), subject.model.config.max_position_embeddings, most)


@st.composite
def _rows_cases(draw: DrawFn, phases: frozenset[Phase], limit: int, most: int) -> RowsCase:
    # the last of four, so that shrinking leaves it where it can
    wide = draw(st.integers(0, 3)) == 3
    lengths = draw(_wide_lengths() if wide else st.lists(st.integers(1, most), min_size=1, max_size=3))
    first = 0 if Phase.PREFILL in phases else 1
    lengths = [min(length, limit - first) for length in lengths]
    starts = [draw(_starts(first, limit - length)) for length in lengths]
    decodes = [_decode(draw, start, phases) for start in starts]
    rows = sum(lengths)
    return RowsCase(
        lengths=tuple(lengths),
        starts=tuple(starts),
        decodes=tuple(decodes),
        order=_strided(rows, draw(st.integers(1, 30))) if wide else tuple(draw(st.permutations(range(rows)))),
        padding=draw(st.integers(0, 9 if wide else 2)),
        seed=draw(st.integers(0, 63)),
    )


def _wide_lengths() -> SearchStrategy[list[int]]:
    """Many requests of a row or more, as many as ROWS has room for."""
    length = st.one_of(st.integers(1, 2), st.integers(1, LONGEST))
    return st.lists(length, min_size=1, max_size=REQUESTS).map(_within_rows)


def _within_rows(lengths: list[int]) -> list[int]:
    return [length for length, total in zip(lengths, accumulate(lengths), strict=True) if total <= ROWS]


def _starts(first: int, last: int) -> SearchStrategy[int]:
    """Near the beginning, anywhere, around each power of two, and as late as can be."""
    powers = [1 << bit for bit in range(last.bit_length())]
    edges = {power + step for power in powers for step in (-1, 0)}
    near, around = (
        [start for start in values if first <= start <= last] or [first] for values in (NEAR, sorted(edges))
    )
    return st.one_of(st.sampled_from(near), st.integers(first, last), st.sampled_from(around), st.just(last))


def _decode(draw: DrawFn, start: int, phases: frozenset[Phase]) -> bool:
    """A token has been there before a row decodes; several decode in one pass after a retraction."""
    if len(phases) == 1:
        return Phase.DECODE in phases
    return start > 0 and draw(st.booleans())


def _strided(rows: int, stride: int) -> tuple[int, ...]:
    return tuple(sorted(range(rows), key=lambda row: (row * stride % rows, row)))


def spread(items: Sequence[int], most: int) -> tuple[int, ...]:
    """Up to `most` of them, first and last included, evenly apart: each of many is too dear."""
    if len(items) <= most:
        return tuple(items)
    return tuple(items[index * (len(items) - 1) // (most - 1)] for index in range(most))


def note_width(subject: Subject, case: RowsCase) -> None:
    """Count a pass that is wider than a tile."""
    subject.seen["wide_passes"] += case.rows > TILE
