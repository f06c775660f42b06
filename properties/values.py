"""Numbers from a seed by integer arithmetic alone: the same on every torch version, exact in every dtype used here."""

from __future__ import annotations

import torch
from torch import Tensor

_STEP = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX = 0xBF58476D1CE4E5B9 - (1 << 64)


def integers(seed: int, *shape: int) -> Tensor:
    """int64 of `shape`, each 0 .. 255, well mixed: neighbours and neighbouring seeds have nothing in common."""
    count = 1
    for size in shape:
        count *= size
    x = (torch.arange(1, count + 1, dtype=torch.int64) + seed * 1_000_003) * _STEP
    for shift in (30, 27, 31):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * _MIX
    return ((x >> 40) & 0xFF).view(shape)


def kv_values(seed: int, *shape: int) -> Tensor:
    """float32 in steps of 1/8 from -15/8 to 15/8: exact down to an 8-bit float with three bits of fraction."""
    return (integers(seed, *shape) % 31 - 15).to(torch.float32) / 8


def hidden_values(seed: int, *shape: int) -> Tensor:
    """float32 in steps of 1/64 from -2 to 127/64: exact in bfloat16."""
    return (integers(seed, *shape) - 128).to(torch.float32) / 64
