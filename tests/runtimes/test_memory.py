"""Engines that start on a GPU, and what takes much of it at once, wait for each other."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from threading import Thread

import pytest

from conformance.runtimes.sglang import memory
from conformance.runtimes.sglang.memory import GATE, LARGE, MEMORY, changing, lock_file, only_large, starting

GPU = "a-gpu"
Around = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_gpu", lambda device: GPU if device == "cuda" else None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def is_free(name: str, kind: int) -> bool:
    """For another process."""
    with lock_file(GPU, name).open("a") as lock:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize(("around", "starts"), [(starting, True), (changing, False)])
def test_many_may_start_and_none_while_memory_changes(around: Around, starts: bool) -> None:
    with around("cuda"):
        assert is_free(GATE, fcntl.LOCK_EX)
        assert is_free(MEMORY, fcntl.LOCK_SH) == starts and not is_free(MEMORY, fcntl.LOCK_EX)
    assert is_free(MEMORY, fcntl.LOCK_EX)


def test_starts_that_come_later_wait_behind_a_change_that_waits() -> None:
    changed: list[bool] = []

    def change() -> None:
        with changing("cuda"):
            changed.append(True)

    with lock_file(GPU, MEMORY).open("a") as start:
        fcntl.flock(start, fcntl.LOCK_SH)
        waits = Thread(target=change)
        waits.start()
        while is_free(GATE, fcntl.LOCK_EX):
            pass
        assert not changed
    waits.join(timeout=60)
    assert changed == [True] and is_free(GATE, fcntl.LOCK_EX)


def test_a_change_that_starts_an_engine_does_not_wait_for_itself() -> None:
    with changing("cuda"), starting("cuda"):
        assert not is_free(MEMORY, fcntl.LOCK_SH)


def test_one_process_at_a_time_has_much_of_a_gpu() -> None:
    with ExitStack() as until:
        only_large("cuda", until)
        assert not is_free(LARGE, fcntl.LOCK_EX)
    assert is_free(LARGE, fcntl.LOCK_EX)


def test_a_cpu_has_no_locks(tmp_path: Path) -> None:
    with starting("cpu"), changing("cpu"), ExitStack() as until:
        only_large("cpu", until)
        assert not list(tmp_path.iterdir())
