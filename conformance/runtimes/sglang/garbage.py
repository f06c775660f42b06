"""What the engine tidies up around every capture, of which the suite makes thousands. It collects garbage twice, and a
process that has imported it holds a million objects: half a second each time."""

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
# not done while an engine is built: torch hands all memory that it keeps back to the driver before each capture, and
# asking for it again waits for every other process on the GPU
LEFT_OUT: Final[tuple[tuple[Any, str], ...]] = (
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
def collected_by_name() -> Iterator[None]:
    """While an engine is built: collections only where they are asked for, since a graph that is let go of in another's
    capture ends it; nothing more is left out, nor taken back in; and memory that torch keeps stays with it."""
    automatic = gc.isenabled()
    gc.disable()
    # a pool of graphs that are gone can be captured into only once it is
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


def _nothing() -> None: ...
