"""Engines that share a GPU. One that starts measures what is free, twice, and takes the difference for its own; so what
takes or gives back much of the GPU at once waits for the starts under way, and starts wait for it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import torch

GATE: Final = "gate"
MEMORY: Final = "memory"
LARGE: Final = "large"
# what this process holds: a lock taken twice by one process would wait for itself
_holds: list[int] = []


@contextmanager
def starting(device: str) -> Iterator[None]:
    """Around the start of an engine on `device`: nothing large is taken or given back meanwhile."""
    with _steady(device, fcntl.LOCK_SH):
        yield


@contextmanager
def changing(device: str) -> Iterator[None]:
    """Around what takes or gives back much of the memory of `device`: no other process starts an engine there."""
    with _steady(device, fcntl.LOCK_EX):
        yield


def only_large(device: str, until: ExitStack) -> None:
    """Until then no other process has as much of `device`; waits for its turn."""
    gpu = _gpu(device)
    if gpu is not None:
        until.enter_context(_locked(gpu, LARGE, fcntl.LOCK_EX))


@contextmanager
def _steady(device: str, kind: int) -> Iterator[None]:
    gpu = _gpu(device)
    if _holds or gpu is None:
        yield
        return
    with ExitStack() as stack:
        # whoever waits holds the gate, so that starts that come later do not go before it
        with _locked(gpu, GATE, fcntl.LOCK_EX):
            stack.enter_context(_locked(gpu, MEMORY, kind))
        _holds.append(kind)
        stack.callback(_holds.pop)
        yield


def _gpu(device: str) -> str | None:
    """What names it for every process, or None for a CPU."""
    return str(torch.cuda.get_device_properties(device).uuid) if torch.device(device).type == "cuda" else None


def lock_file(gpu: str, name: str) -> Path:
    """Of this user, for the GPU of that name."""
    return Path(tempfile.gettempdir()) / f"vskipper-{os.getuid()}-{gpu}-{name}.lock"


@contextmanager
def _locked(gpu: str, name: str, kind: int) -> Iterator[None]:
    """A process that dies gives it back."""
    with lock_file(gpu, name).open("a") as lock:
        fcntl.flock(lock, kind)
        yield
