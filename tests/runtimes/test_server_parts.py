"""Parts of the runtime `server` that need no server: who is attended, errors on their way, memory of two processes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance.runtimes.sglang.server.agent import plugin
from conformance.runtimes.sglang.server.link import answer_of
from conformance.runtimes.sglang.server.shared import share
from conformance.runtimes.sglang.server.wire import ADDRESS, AgentError, outcome
from vskipper.errors import InputError, PolicyError


def test_only_servers_of_the_suite_are_attended(monkeypatch: pytest.MonkeyPatch) -> None:
    def original(scheduler: Any) -> None:
        raise NotImplementedError

    scheduler = SimpleNamespace(run_event_loop=original)
    monkeypatch.setitem(sys.modules, plugin.SCHEDULER, SimpleNamespace(Scheduler=scheduler))
    monkeypatch.delenv(ADDRESS, raising=False)
    plugin.load()
    assert scheduler.run_event_loop is original
    monkeypatch.setenv(ADDRESS, os.devnull)
    plugin.load()
    assert scheduler.run_event_loop is not original


@pytest.mark.parametrize(
    "error",
    [
        InputError("rows", where="a plan", got=0, expected="1"),
        PolicyError("shape", policy="p", hook="route", location="p.py:3", got=1, expected=2),
        RuntimeError("other"),
    ],
)
def test_errors_travel_as_they_are(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        answer_of(outcome(fail))
    assert caught.value is not error
    assert str(caught.value) == str(error) and vars(caught.value).items() >= vars(error).items()


def test_an_error_that_cannot_travel_leaves_its_traceback() -> None:
    class Local(Exception):
        pass

    def fail() -> None:
        raise Local("here")

    with pytest.raises(AgentError, match="here"):
        answer_of(outcome(fail))


@dataclass(slots=True, kw_only=True)
class Pool:
    """As far as sharing needs one: bfloat16 kept as bytes of its width."""

    k_buffer: list[torch.Tensor]
    v_buffer: list[torch.Tensor]
    dtype: torch.dtype = torch.bfloat16


def test_a_shared_pool_is_one_memory(tmp_path: Path) -> None:
    pool = Pool(k_buffer=[torch.ones(4, 2, 3, dtype=torch.int16)] * 2, v_buffer=[])
    pool.v_buffer = list(pool.k_buffer)
    shared = share(pool, tmp_path / "pool")
    assert shared.shape == (4, 2, 3) and shared.layers == 2
    here = shared.tensors()
    assert not any(bool(part.any()) for pair in here for part in pair)
    here[1][0][2] = 1.5
    assert pool.k_buffer[1].view(torch.bfloat16)[2].eq(1.5).all()
    assert int(torch.stack([*pool.k_buffer, *pool.v_buffer]).count_nonzero()) == 6
    pool.v_buffer[0].fill_(-1)
    assert here[0][1].view(torch.int16).eq(-1).all()
