"""What `gpu_tests.certify_matrix` covers, and that no cell holds it up for ever."""

from __future__ import annotations

import sys
import time
from itertools import product
from pathlib import Path

import pytest

from gpu_tests import certify_matrix
from gpu_tests.certify_matrix import CELLS, SETTINGS, Cell, certify
from vskipper.sglang.checks.gpu import BACKENDS


def test_every_policy_on_every_backend_and_both_dtypes_and_models_with_each() -> None:
    assert sorted((cell.policy, cell.backend) for cell in CELLS) == sorted(product(SETTINGS, BACKENDS))
    for names in (SETTINGS, BACKENDS):
        for name in names:
            own = [cell for cell in CELLS if name in (cell.policy, cell.backend)]
            assert {cell.dtype for cell in own} == {"bfloat16", "float16"}
            assert {cell.model for cell in own} == {"small-llama", "small-qwen3"}


def test_a_certificate_that_is_there_stands_and_one_that_fails_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"graph-{CELLS[0].name}"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"granted": true, "seconds": 61.2}')
    assert certify(CELLS[0], tmp_path, "graph", 0, 60)
    # there is no GPU, or no such level
    assert not certify(CELLS[1], tmp_path, "nonsense", 0, 600)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{folder.name}: granted, 61 s"
    assert second == f"nonsense-{CELLS[1].name}: not granted, see nonsense-{CELLS[1].name}.log, 0 s"
    assert "nonsense" in (tmp_path / f"nonsense-{CELLS[1].name}.log").read_text()


# deaf to a polite request, with a child of its group that would outlive it
HANGS = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


def runs(pid: int) -> bool:
    """Whoever inherited one that has ended may not have looked yet."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_hung_cell_is_killed_with_its_group_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Cell, "command", lambda *arguments: [sys.executable, "-c", HANGS])
    monkeypatch.setattr(certify_matrix, "GRACE", 0.1)
    assert not certify(CELLS[0], tmp_path, "graph", 0, 5)
    log = f"graph-{CELLS[0].name}.log"
    assert capsys.readouterr().out == f"graph-{CELLS[0].name}: not granted, killed after 5 s, see {log}, 0 s\n"
    child = int((tmp_path / log).read_text())
    until = time.monotonic() + 20
    while runs(child) and time.monotonic() < until:
        time.sleep(0.1)
    assert not runs(child)
