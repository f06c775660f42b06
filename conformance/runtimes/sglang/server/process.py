"""A server process: it ends with whoever started it, and is known to have left nothing once it is stopped."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from conformance.runtimes.sglang.server.client import HOST, Client
from conformance.runtimes.sglang.server.command import Launch

PAUSE: Final = 0.2
# a start takes 20 seconds on an idle machine and minutes on one that is not
START: Final = 600.0
STOP: Final = 60.0
READY: Final = "vskipper: ready on "
TAIL: Final = 4000
PARENT_DIED: Final = 1


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
            launch.command(port),
            env=launch.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        try:
            server = Server(client=Client(port=port), launch=launch, seconds=0.0, log=log, process=process)
            _wait(server, begun + patience)
            yield Server(
                client=server.client, launch=launch, seconds=time.monotonic() - begun, log=log, process=process
            )
        finally:
            left = stop(process)
    if left:
        raise LeftBehind(f"{' '.join(launch.command(port))}: {', '.join(left)}")


def stop(process: subprocess.Popen[bytes]) -> list[str]:
    """Ask the process to end and wait for all that it started; what has not ended by then is killed and named."""
    psutil = import_module("psutil")
    family = _family(psutil, process.pid)
    process.terminate()
    _, left = psutil.wait_procs(family, timeout=STOP)
    named = [_name(psutil, each) for each in left]
    for each in left:
        each.kill()
    psutil.wait_procs(left, timeout=STOP)
    process.wait()
    return named


def free_port() -> int:
    """Of the loopback, free a moment ago."""
    with closing(socket.create_server((HOST, 0))) as taken:
        port: int = taken.getsockname()[1]
    return port


def _wait(server: Server, until: float) -> None:
    """Until the server says that it is ready: `vskipper serve` in a line, SGLang alone at its health endpoint."""
    says_so = server.launch.way == "serve"
    while not (READY in server.log.read_text(errors="replace") if says_so else server.client.healthy()):
        if not server.alive():
            raise NotStarted(f"exit code {server.process.returncode}\n{server.tail()}")
        if time.monotonic() > until:
            raise NotStarted(f"not ready in time\n{server.tail()}")
        time.sleep(PAUSE)


def _family(psutil: Any, pid: int) -> list[Any]:
    """The process and all that descend from it, as objects that outlast a number's reuse."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _name(psutil: Any, process: Any) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.NoSuchProcess:
        return str(process.pid)


def _end_with_parent() -> None:
    # a test run that is killed has no chance to stop its server
    ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGTERM)
