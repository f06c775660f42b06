"""Where the recorder stands: around what captures one graph and what replays one, by how a version keeps its graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Final

import torch

from conformance.runtimes.sglang.around import around
from conformance.runtimes.sglang.graphs.record import Recorder
from conformance.runtimes.sglang.process import quiet_engine

PACKAGE: Final = "sglang.srt.model_executor"


def capturing(recorder: Recorder) -> AbstractContextManager[None]:
    """While it lasts, `recorder` sees every graph that is captured."""
    backend = _backend()
    if backend is None:
        with quiet_engine():
            runner = import_module(f"{PACKAGE}.cuda_graph_runner").CudaGraphRunner

        def capture_graph(original: Any, owner: Any, graph: Any, pool: Any, stream: Any, forward: Any) -> Any:
            return recorder.capture(graph, forward, lambda noted: original(owner, graph, pool, stream, noted))

        return around(runner, "_capture_graph", capture_graph)

    def capture_one(original: Any, owner: Any, key: Any, forward: Any, *rest: Any, **more: Any) -> Any:
        return recorder.capture(key, forward, lambda noted: original(owner, key, noted, *rest, **more))

    return around(backend, "capture_one", capture_one)


def replaying(recorder: Recorder) -> AbstractContextManager[None]:
    """While it lasts, `recorder` sees every replay, or runs what was captured in its place."""
    backend = _backend()
    if backend is None:

        def replay_graph(original: Callable[..., Any], graph: Any) -> None:
            kept = recorder.outputs(graph)
            found = recorder.replay(graph, lambda: original(graph))
            if found is not None:
                # the runner reads the outputs that it kept
                kept.next_token_logits.copy_(found.next_token_logits)

        return around(torch.cuda.CUDAGraph, "replay", replay_graph)

    def replay(original: Callable[..., Any], owner: Any, key: Any, *rest: Any, **more: Any) -> Any:
        return recorder.replay(key, lambda: original(owner, key, *rest, **more))

    return around(backend, "replay", replay)


def _backend() -> Any:
    """The class that keeps the engine's graphs by key; None where the runner keeps them itself."""
    try:
        with quiet_engine():
            return import_module(f"{PACKAGE}.runner_backend.full_cuda_graph_backend").FullCudaGraphBackend
    except ModuleNotFoundError:
        return None
