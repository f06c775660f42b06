"""Which variant of the decode graphs is being captured or replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum


class Variant(StrEnum):
    """The engine's own graph, or the one in which routed layers read their routes on the device."""

    DENSE = "dense"
    ROUTED = "routed"


_current: ContextVar[Variant] = ContextVar("vskipper_variant", default=Variant.DENSE)


def current_variant() -> Variant:
    return _current.get()


@contextmanager
def using(variant: Variant) -> Iterator[None]:
    """Make `variant` the current one."""
    token = _current.set(variant)
    try:
        yield
    finally:
        _current.reset(token)
