"""The server as a child process: signals go to it, and when it ends nothing that it started is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAUSE: Final = 0.2
GRACE: Final = 20.0


def run_server(
    command: Sequence[str], environment: Mapping[str, str], healthy: Callable[[], bool], ready: Callable[[], None]
) -> int:
    """Run the server to its end and return its exit code (128 and the number of the signal that ended it). `ready` is
    called once, when `healthy` first holds; what it raises stops the server and goes on to the caller.

    The first of SIGNALS asks the server to end, as it does: requests that run are answered. The second kills it.
    """
    with _started(command, environment) as process:
        while process.poll() is None:
            if healthy():
                ready()
                break
            time.sleep(PAUSE)
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The server, in a group of its own with all that it starts."""
    process: subprocess.Popen[bytes] | None = None
    asked = 0

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if process is not None:
            # the server itself knows how to end on this signal alone
            _stop(process) if asked == 1 else _kill(process)

    heard = {each: signal.getsignal(each) for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}
    for each in heard:
        signal.signal(each, forward)
    try:
        process = subprocess.Popen(list(command), env=dict(environment), start_new_session=True)
        if asked:
            _stop(process)
        yield process
    finally:
        if process is not None:
            _end(process)
        for each, before in heard.items():
            signal.signal(each, before)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a server that still runs, then whatever is left of its group."""
    if process.poll() is None:
        _stop(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    _kill(process)
    process.wait()
