"""Whether a table names what a list asks for, once each and in its order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence


def out_of_order(table: str, kind: str, expected: Sequence[str], got: Sequence[str]) -> Iterator[str]:
    """One line for each missing, surplus or repeated name; one for a wrong order."""
    if list(expected) == list(got):
        return
    want, have = Counter(expected), Counter(got)
    for name in expected:
        if name not in have:
            yield f"{table}: {kind} {name} is missing"
    for name, count in have.items():
        if name not in want:
            yield f"{table}: {kind} {name} is not on the must-pass list"
        elif count > 1:
            yield f"{table}: {kind} {name} stands {count} times, expected once"
    if want == have:
        first = next(index for index, pair in enumerate(zip(expected, got, strict=True)) if pair[0] != pair[1])
        yield f"{table}: order, entry {first + 1}: got {got[first]}, expected {expected[first]}"
