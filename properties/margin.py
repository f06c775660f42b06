"""The worst error of a property's comparisons, as a share of what is allowed: reported beside every verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Margin:
    """worst: the largest note so far, None before the first. 1.0 is the limit."""

    def __init__(self) -> None:
        self.worst: float | None = None

    def note(self, share: float) -> None:
        self.worst = share if self.worst is None else max(self.worst, share)


_current: ContextVar[Margin | None] = ContextVar("margin", default=None)


def note(share: float) -> None:
    """Add one comparison to the record that is open, if one is."""
    record = _current.get()
    if record is not None:
        record.note(share)


@contextmanager
def recorded() -> Iterator[Margin]:
    """Collect every note made inside."""
    record = Margin()
    token = _current.set(record)
    try:
        yield record
    finally:
        _current.reset(token)
