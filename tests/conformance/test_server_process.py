"""A server process that does not start, and one that does not end: both are told, and neither stays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from conformance.runtimes.sglang.server import process
from conformance.runtimes.sglang.server.family import runs
from conformance.runtimes.sglang.server.process import LeftBehind, NotStarted, running

READY = f"print('{process.READY}here', flush=True)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
WAIT = "import time; time.sleep(600)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """In place of a Launch."""

    text: str
    way: str = "serve"

    def command(self, port: int) -> list[str]:
        return [sys.executable, "-c", self.text]

    def environment(self) -> dict[str, str]:
        return {}


def start(script: str, folder: Path, **options: Any) -> Any:
    return running(Script(text=script), folder / "log", **options)  # type: ignore[arg-type]


def test_one_that_ends_with_its_parent_asked(tmp_path: Path) -> None:
    child = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {WAIT!r}]); "
    ends = "import signal; signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), child.wait(), sys.exit(0))); "
    with start(child + ends + READY + "; " + WAIT, tmp_path) as server:
        assert server.alive() and server.seconds > 0
        family = psutil.Process(server.process.pid).children()
        assert len(family) == 1
    assert not server.alive() and not runs(family[0])


def test_one_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match=r"exit code 3\n.*why it did"), start("print('why it did'); exit(3)", tmp_path):
        pass


def test_one_that_is_never_ready(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match="not ready in time"), start(WAIT, tmp_path, patience=0.5):
        pass


def test_one_that_does_not_end_is_killed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP", 1.0)
    with pytest.raises(LeftBehind, match="sleep"), start(f"{STUBBORN}; {READY}; {WAIT}", tmp_path) as server:
        pass
    assert not server.alive()


def test_a_child_that_is_left_behind_is_killed_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP", 1.0)
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAIT!r}]); "
    with pytest.raises(LeftBehind, match="sleep"), start(f"{child}{READY}; {WAIT}", tmp_path) as server:
        (left,) = psutil.Process(server.process.pid).children()
    assert not runs(left)


def test_a_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Also with one that is killed."""
    folder = Path(__file__).resolve().parents[2]
    starter = (
        f"import sys; sys.path.insert(0, {str(folder)!r})\n"
        "from pathlib import Path\n"
        "import time\n"
        "from tests.conformance.test_server_process import READY, WAIT, start\n"
        f"with start(READY + '; ' + WAIT, Path({str(tmp_path)!r})) as server:\n"
        "    print(server.process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        server = psutil.Process(int(owner.stdout.readline()))
        owner.kill()
    server.wait(timeout=20)
