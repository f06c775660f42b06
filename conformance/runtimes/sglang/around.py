"""Puts a function of the suite around one of the engine's or the plugin's, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def around(owner: Any, name: str, wrapper: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, owner.name calls `wrapper` with what it was."""
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        return wrapper(original, *arguments, **keywords)

    with mock.patch.object(owner, name, wrapped):
        yield
