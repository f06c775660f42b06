"""Captured CUDA graphs, compared with eager execution bit for bit (clause GRAPH-1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from properties.kernels.judge import expect_bits


def capture(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """`step` as a graph; it runs once before, so that its kernels are compiled."""
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def check_replays(step: Callable[[], None], outputs: Iterable[Tensor], inputs: Iterable[Callable[[], None]]) -> None:
    """After each change of the inputs a replay of the one graph writes what an eager call writes, over equal poison."""
    outputs = tuple(outputs)
    graph = capture(step)
    for number, change in enumerate(inputs):
        change()
        results = []
        for run in (step, graph.replay):
            for output in outputs:
                output.fill_(math.nan if output.is_floating_point() else -7)
            run()
            results.append([output.clone() for output in outputs])
        for eager, replayed in zip(*results, strict=True):
            expect_bits("GRAPH-1", "replay_differs", replayed, eager, replay=number)
