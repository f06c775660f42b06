"""The suite in a process of its own: a request goes in as a file, events come out as lines, all else goes to a log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from vskipper.errors import InputError
from vskipper.suite import suite_environment

RUNNER: Final = "conformance.runner"
LOG: Final = "suite.log"
TAIL: Final = 20
GRACE: Final = 60.0


class SuiteDied(Exception):
    """The process ended before it was done. text: its last words. log: the file that has all of them."""

    def __init__(self, code: int, log: Path) -> None:
        self.code = code
        self.log = log
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        self.text = "\n".join(lines[-TAIL:])
        super().__init__(f"the suite ended with code {code} before it was done; its output is in {log}")


def run_suite(request: Path, work_dir: Path) -> Generator[dict[str, Any], None, None]:
    """Yield each event up to and with `done`. Raises InputError that the suite reports, and SuiteDied.

    The log lies in work_dir; what an error still needs of it is kept in a temporary file.
    """
    log = work_dir / LOG
    # unbuffered: what a full disk does not take would be tried once more when the file is closed
    with log.open("wb", buffering=0) as sink, _started(request, work_dir, sink) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = _event(line)
            if event is None:
                # a log that is cut short costs no run
                with suppress(OSError):
                    sink.write(line.encode())
                continue
            if event["event"] == "error":
                raise _input_error(event, log)
            yield event
            if event["event"] == "done":
                return
        code = process.wait()
    raise SuiteDied(code, _kept(log))


@contextmanager
def _started(request: Path, work_dir: Path, sink: IO[bytes]) -> Iterator[subprocess.Popen[str]]:
    """The process, in a group of its own, so that whoever interrupts leaves no worker behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", RUNNER, str(request)],
        stdout=subprocess.PIPE,
        stderr=sink,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=suite_environment(work_dir),
        start_new_session=True,
    )
    try:
        yield process
        process.communicate(timeout=GRACE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _event(line: str) -> dict[str, Any] | None:
    """The event that a line is, or None for anything else that was printed."""
    if not line.startswith("{"):
        return None
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    return raw if isinstance(raw.get("event"), str) else None


def _input_error(event: dict[str, Any], log: Path) -> InputError:
    expected = event["expected"]
    if event["traceback"]:
        expected = f"{expected}; the traceback is in {_kept(log)}"
    return InputError(event["what"], where=event["where"], got=event["got"], expected=expected)


def _kept(log: Path) -> Path:
    """A copy that outlives the work folder; as much of it as the disk takes."""
    handle, name = tempfile.mkstemp(prefix="vskipper-", suffix=".log")
    os.close(handle)
    with suppress(OSError):
        shutil.copyfile(log, name)
    return Path(name)
