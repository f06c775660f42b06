"""What the engine's collections of garbage look through. It collects twice around every capture, and a process that has
imported it holds a million objects: half a second each time, and an engine is built for every fault."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from unittest import mock

# which import what an engine runs
IMPORTING = ("sglang.srt.managers.scheduler", "sglang.srt.models.registry")


@cache
def leave_out_imported() -> None:
    """Import the engine, and have no collection look through what is there now. To be called before the first engine is
    built: what is left out is never collected."""
    for name in IMPORTING:
        import_module(name)
    gc.collect()
    gc.freeze()


@contextmanager
def collected_by_name() -> Iterator[None]:
    """While an engine is built: collections only where they are asked for, since a graph that is let go of in another's
    capture ends it; and nothing more is left out, nor taken back in."""
    automatic = gc.isenabled()
    gc.disable()
    try:
        with mock.patch.object(gc, "freeze", _nothing), mock.patch.object(gc, "unfreeze", _nothing):
            yield
    finally:
        if automatic:
            gc.enable()


def _nothing() -> None: ...
