"""A replay in which the host may wait for nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from conformance.runtimes.sglang.around import around
from vskipper.sglang.seams.decode_runner import replaying_method


@contextmanager
def without_waits() -> Iterator[None]:
    """The replay inside raises RuntimeError where the host waits for the device; no replay inside is an error too.
    Hooks that are installed inside are not seen."""
    watched = 0

    def watch(original: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal watched
        watched += 1
        with _refused():
            return original(*arguments, **keywords)

    with around(*replaying_method(), watch):
        yield
    if not watched:
        raise RuntimeError("no replay was watched")


@contextmanager
def _refused() -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            # that not everything is detected
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        with ExitStack() as stack:
            # what waits by its name is not among what is detected
            for owner in (torch.cuda, torch.cuda.Event, torch.cuda.Stream):
                stack.enter_context(mock.patch.object(owner, "synchronize", _waits))
            yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def _waits(*arguments: Any, **keywords: Any) -> None:
    raise RuntimeError("called synchronize()")
