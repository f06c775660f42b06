"""A server process: it ends with whoever started it, and is known to have left nothing once it is stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from conformance.runtimes.sglang.ports import free_port
from conformance.runtimes.sglang.server.client import Client
from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.family import family_of, kill, name_of, wait_ended

PAUSE: Final = 0.2
# a start takes 20 seconds on an idle machine and minutes on one that is not
START: Final = 600.0
STOP: Final = 120.0
READY: Final = "vskipper: ready on "
TAIL: Final = 4000
# a test run that is killed has no chance to stop its server: the system then does
TETHERED: Final = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM); os.execv(sys.argv[1], sys.argv[1:])"
)


class NotStarted(RuntimeError):
    """The server ended, or was not ready in time; the message ends with its log."""


class LeftBehind(RuntimeError):
    """Processes of a server that was asked to end did not, and were killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One that is ready. seconds: from its start until then. log: what it writes."""

    client: Client
    launch: Launch
    seconds: float
    log: Path
    process: subprocess.Popen[bytes]

    def alive(self) -> bool:
        return self.process.poll() is None

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-TAIL:]


@contextmanager
def running(launch: Launch, log: Path, *, patience: float = START) -> Iterator[Server]:
    """Raises NotStarted, and LeftBehind where stopping it was not enough."""
    port = free_port()
    with log.open("wb") as output:
        begun = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TETHERED, *launch.command(port)],
            env=launch.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )
        family = family_of(process.pid)
        try:
            server = Server(client=Client(port=port), launch=launch, seconds=0.0, log=log, process=process)
            _wait(server, begun + patience)
            # what it has started by now is known even if it dies
            family += family_of(process.pid)
            yield replace(server, seconds=time.monotonic() - begun)
        finally:
            left = stop(process, family)
    if left:
        raise LeftBehind(f"{' '.join(launch.command(port))}: {', '.join(left)}")


def stop(process: subprocess.Popen[bytes], family: Sequence[Any] = ()) -> list[str]:
    """Ask the process to end and wait for all that it started, `family` among it; what has not ended by then is killed
    and named."""
    every = {*family, *family_of(process.pid)}
    process.terminate()
    left = wait_ended(every, process.poll, STOP)
    named = [name_of(each) for each in left]
    for each in left:
        kill(each)
    wait_ended(left, process.poll, STOP)
    process.wait()
    return named


def _wait(server: Server, until: float) -> None:
    """Until the server says that it is ready: `vskipper serve` in a line, SGLang alone at its health endpoint."""
    says_so = server.launch.way == "serve"
    while not (READY in server.log.read_text(errors="replace") if says_so else server.client.healthy()):
        if not server.alive():
            raise NotStarted(f"exit code {server.process.returncode}\n{server.tail()}")
        if time.monotonic() > until:
            raise NotStarted(f"not ready in time\n{server.tail()}")
        time.sleep(PAUSE)
