"""Puts a function around one of the engine's, once a process, and takes it away again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

MARK: Final = "__vskipper__"
# owner and name of everything that was wrapped
_wrapped: set[tuple[Any, str]] = set()


def rewrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have owner.name call `around(original, *arguments, **keywords)`, in place of what rewrap() put there before.
    Raises AttributeError where the owner has no such function."""
    found = getattr(owner, name)
    original = getattr(found, MARK, found)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return around(original, *arguments, **keywords)

    setattr(wrapped, MARK, original)
    setattr(owner, name, wrapped)
    _wrapped.add((owner, name))


def unwrap_all() -> None:
    """The engine as if nothing had been wrapped; what somebody else put around a wrapper stays."""
    for owner, name in _wrapped:
        found = getattr(owner, name)
        if hasattr(found, MARK):
            setattr(owner, name, getattr(found, MARK))
