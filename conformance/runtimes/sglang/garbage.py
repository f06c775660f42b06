"""What the engine tidies up around every capture, of which the suite makes thousands: all of it once, before the first
capture of an engine. A collection looks through a million objects that the engine's import leaves, in half a second;
and memory that torch hands back to the driver has to be asked for again, while every other process on the GPU waits."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final
from unittest import mock

import torch

# which import what an engine runs
IMPORTING = ("sglang.srt.managers.scheduler", "sglang.srt.models.registry")
# not done while an engine is built
LEFT_OUT: Final[tuple[tuple[Any, str], ...]] = (
    (gc, "collect"),
    (gc, "freeze"),
    (gc, "unfreeze"),
    (torch.cuda, "empty_cache"),
    (torch._C, "_host_emptyCache"),
)


@cache
def leave_out_imported() -> None:
    """Import the engine, and have no collection look through what is there now. To be called before the first engine is
    built: what is left out is never collected."""
    for name in IMPORTING:
        import_module(name)
    gc.collect()
    gc.freeze()


@contextmanager
def tidied_before() -> Iterator[None]:
    """While an engine is built or captured, once whatever it replaces has been let go of: nothing is collected, since a
    graph that goes in another's capture ends it, nor left out of collections, nor taken back in; and memory that torch
    keeps stays with it."""
    automatic = gc.isenabled()
    gc.disable()
    gc.collect()
    # a pool whose graphs are all gone can be captured into again only once it is gone too
    torch.cuda.empty_cache()
    try:
        with ExitStack() as stack:
            for owner, name in LEFT_OUT:
                if hasattr(owner, name):
                    stack.enter_context(mock.patch.object(owner, name, _nothing))
            yield
    finally:
        if automatic:
            gc.enable()


def _nothing(*_: Any) -> int:
    """Collected: no object."""
    return 0
