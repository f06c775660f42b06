"""A pool's K and V in a file that two processes map: each reads and writes the very bytes of the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Kv = tuple[tuple[Tensor, Tensor], ...]
PARTS = ("k_buffer", "v_buffer")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPool:
    """file: `layers` pairs of K and V of `shape`, each in `dtype`, one after the other."""

    file: Path
    layers: int
    shape: tuple[int, int, int]
    dtype: torch.dtype

    def tensors(self) -> Kv:
        """Over the file itself."""
        size = prod(self.shape) * self.dtype.itemsize
        raw = torch.from_file(str(self.file), shared=True, size=2 * self.layers * size, dtype=torch.uint8)
        whole = raw.view(self.dtype).view(self.layers, 2, *self.shape)
        return tuple((pair[0], pair[1]) for pair in whole)


def share(pool: Any, file: Path) -> SharedPool:
    """Move the engine's pool into a new file, zeros at first. What it keeps as bytes is shared in its dtype."""
    first = pool.k_buffer[0]
    shape = (int(first.shape[0]), int(first.shape[1]), int(first.shape[2]))
    shared = SharedPool(file=file, layers=len(pool.k_buffer), shape=shape, dtype=pool.dtype)
    with file.open("xb") as new:
        new.truncate(2 * shared.layers * prod(shape) * first.element_size())
    pairs = shared.tensors()
    for part, name in enumerate(PARTS):
        setattr(pool, name, [pair[part].view(first.dtype) for pair in pairs])
    return shared
