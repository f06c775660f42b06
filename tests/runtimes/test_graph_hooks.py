"""The suite's recorder around either kind of graph runner, both made of plain Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance.runtimes.sglang.graphs.hooks import PACKAGE, capturing, replaying
from conformance.runtimes.sglang.graphs.record import Padding, Recorder


class Graph:
    """Stands for torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


class Backend:
    """Keeps graphs and outputs by key, as newer versions do."""

    def __init__(self) -> None:
        self.graphs: dict[Any, Graph] = {}
        self.outputs: dict[Any, Any] = {}

    def capture_one(self, key: Any, forward: Callable[[], Any], dummies: Any = None) -> None:
        forward()
        self.graphs[key], self.outputs[key] = Graph(), forward()

    def replay(self, key: Any, forward_batch: Any) -> Any:
        self.graphs[key].replay()
        return self.outputs[key]


class Runner:
    """Files graphs and outputs itself, as older versions do."""

    def __init__(self) -> None:
        self.graphs: dict[Any, Graph] = {}
        self.outputs: dict[Any, Any] = {}

    def _capture_graph(self, graph: Graph, pool: Any, stream: Any, run_once_fn: Callable[[], Any]) -> Any:
        return run_once_fn()

    def capture_one(self, key: Any, forward: Callable[[], Any]) -> None:
        graph = Graph()
        forward()
        self.graphs[key], self.outputs[key] = graph, self._capture_graph(graph, None, None, forward)

    def replay(self, key: Any, forward_batch: Any) -> Any:
        self.graphs[key].replay()
        return self.outputs[key]


def module(monkeypatch: pytest.MonkeyPatch, name: str, **values: Any) -> None:
    made = ModuleType(name)
    made.__path__ = []
    vars(made).update(values)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture(params=["backend", "runner"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One of the two, where the suite looks for it."""
    for name in ("sglang", "sglang.srt", PACKAGE):
        module(monkeypatch, name)
    attention = SimpleNamespace(forward_metadata="of this capture")
    module(monkeypatch, f"{PACKAGE}.forward_context", get_attn_backend=lambda: attention)
    if request.param == "backend":
        module(monkeypatch, f"{PACKAGE}.runner_backend")
        module(monkeypatch, f"{PACKAGE}.runner_backend.full_cuda_graph_backend", FullCudaGraphBackend=Backend)
        return Backend()
    # there may be a real engine in this process
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.runner_backend", None)
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.runner_backend.full_cuda_graph_backend", None)
    module(monkeypatch, f"{PACKAGE}.cuda_graph_runner", CudaGraphRunner=Runner)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    return Runner()


def test_a_replay_is_the_graph_s_and_a_twin_the_code_s(engine: Any) -> None:
    recorder = Recorder(Padding(1, 1, torch.zeros(0)))
    inputs = torch.tensor([1.0])

    def forward() -> Any:
        return SimpleNamespace(next_token_logits=inputs.clone())

    with capturing(recorder):
        for size in (2, 1):
            engine.capture_one(size, forward)
    runs = recorder.code_runs
    assert runs > 0
    inputs += 1.0

    def decoded(size: int) -> Tensor:
        with replaying(recorder):
            logits: Tensor = engine.replay(size, None).next_token_logits
        return logits.clone()

    # nothing recomputes in this world, so that a replay leaves what the capture did
    assert decoded(2).tolist() == [1.0] and engine.graphs[2].replays == 1
    recorder.twin = True
    assert decoded(2).tolist() == [2.0] and engine.graphs[2].replays == 1
    recorder.twin = False
    assert decoded(1).tolist() == [1.0] and engine.graphs[1].replays == 1
    assert recorder.code_runs == runs
