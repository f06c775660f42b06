"""Which seeded fault is in force: what is built under one must not serve without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_active: ContextVar[str | None] = ContextVar("vskipper_fault", default=None)


def active_fault() -> str | None:
    return _active.get()


@contextmanager
def in_force(fault: str) -> Iterator[None]:
    token = _active.set(fault)
    try:
        yield
    finally:
        _active.reset(token)
