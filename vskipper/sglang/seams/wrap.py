"""Puts a function around one of the engine's, once a process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

MARK: Final = "__vskipper__"


def wrapper(original: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `around(original, *arguments, **keywords)`."""

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return around(original, *arguments, **keywords)

    setattr(wrapped, MARK, original)
    return wrapped


def rewrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Put `around` around owner.name, in place of what rewrap() put there before. Raises AttributeError where the
    owner has no such method."""
    found = getattr(owner, name)
    setattr(owner, name, wrapper(getattr(found, MARK, found), around))
