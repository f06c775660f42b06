"""A process and all that descend from it, as objects of psutil's that outlast the reuse of a number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

PAUSE: Final = 0.2


def family_of(pid: int) -> list[Any]:
    """The process first; empty where there is none of that number."""
    try:
        first = _psutil().Process(pid)
        return [first, *first.children(recursive=True)]
    except _psutil().NoSuchProcess:
        return []


def wait_ended(every: Iterable[Any], reap: Callable[[], object], seconds: float) -> list[Any]:
    """Those that have not ended by then. reap: looks after the children of this process."""
    until = time.monotonic() + seconds
    left = list(every)
    while left and time.monotonic() < until:
        reap()
        left = [each for each in left if runs(each)]
        time.sleep(PAUSE)
    return left


def runs(process: Any) -> bool:
    """One that has ended may stand in the table until whoever inherited it looks: it does not run."""
    psutil = _psutil()
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def name_of(process: Any) -> str:
    """Its number and command line, while it has one."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except _psutil().NoSuchProcess:
        return str(process.pid)


def kill(process: Any) -> None:
    """At once; one that has ended is left alone."""
    with suppress(_psutil().NoSuchProcess):
        process.kill()


def _psutil() -> Any:
    # wherever SGLang is, it is
    return import_module("psutil")
