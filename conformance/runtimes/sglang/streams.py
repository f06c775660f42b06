"""The residual stream entering each layer and leaving the last, read at the model's own norms; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def recorded(decoder: Any) -> Iterator[list[Tensor]]:
    """decoder: the engine's layers and final norm. The list gets a copy [rows, hidden] at each norm that runs."""
    streams: list[Tensor] = []
    handles = listen(decoder, streams.append)
    try:
        yield streams
    finally:
        for handle in handles:
            handle.remove()


def listen(decoder: Any, take: Callable[[Tensor], None]) -> list[Any]:
    """Have `take` given a copy at each norm that runs from now on; handles that end it."""

    def note(norm: Any, given: tuple[Tensor, ...], answer: Any) -> None:
        # with a residual the norm answers (x, h); the first one is given h itself
        take((answer[1] if isinstance(answer, tuple) else given[0]).clone())

    norms = [*(layer.input_layernorm for layer in decoder.layers), decoder.norm]
    return [norm.register_forward_hook(note) for norm in norms]


def stacked(streams: list[Tensor], layers: int) -> Tensor:
    """[layers + 1, rows, hidden]; raises RuntimeError where a norm did not run exactly once."""
    if len(streams) != layers + 1:
        raise RuntimeError(f"streams of a pass: got {len(streams)}, expected {layers + 1}")
    return torch.stack(streams)
