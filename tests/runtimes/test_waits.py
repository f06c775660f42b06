"""The watch over a replay sees what waits in it, and says where it saw no replay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conformance.runtimes.sglang.graphs import waits


class Runner:
    """Stands for the engine's graph runner."""

    def execute(self, work: Callable[[], object]) -> object:
        return work()


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modes that torch was set to, in order."""
    modes: list[str] = []
    monkeypatch.setattr(waits, "replaying_method", lambda: (Runner, "execute"))
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    return modes


def test_a_wait_by_its_name_is_refused(no_gpu: list[str]) -> None:
    with pytest.raises(RuntimeError, match="synchronize"), waits.without_waits():
        Runner().execute(lambda: torch.cuda.synchronize())
    assert no_gpu == ["error", "default"]


def test_what_a_replay_answers_is_left_alone(no_gpu: list[str]) -> None:
    with waits.without_waits():
        assert Runner().execute(lambda: no_gpu[-1]) == "error"
    assert no_gpu[-1] == "default"


def test_a_watch_that_saw_no_replay_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no replay"), waits.without_waits():
        pass


def test_a_hook_put_in_its_place_hides_no_wait() -> None:
    """Whatever stands around the method when the watch begins is inside of it."""
    hooked = Runner.execute
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Runner, "execute", lambda self, work: (torch.cuda.synchronize(), hooked(self, work)))
        with pytest.raises(RuntimeError, match="synchronize"), waits.without_waits():
            Runner().execute(lambda: None)
