"""How a kernel cuts its work: by shapes, capacity and dtype, never by a count, so that a row's bits stay its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from triton import cdiv, next_power_of_2

from vskipper.errors import InputError
from vskipper.kernels.interpreter import interpreted

# output tiles below which a smaller block_n is worth its extra reads: one for each multiprocessor of an H200
_ENOUGH_TILES = 132


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Blocks of a GEMM (powers of two, 16 or more), and how a program runs it; warps: a power of two.

    group: how many row blocks are walked before the next column block, for reuse of the weight in L2.
    """

    block_m: int
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 3
    group: int = 8

    def __post_init__(self) -> None:
        for name, least in (("block_m", 16), ("block_n", 16), ("block_k", 16), ("warps", 1)):
            size = getattr(self, name)
            if size < least or size & (size - 1):
                expected = f"a power of two, {least} or more"
                raise InputError("bad tile", where=f"Tile.{name}", got=size, expected=expected)
        for name in ("stages", "group"):
            if getattr(self, name) < 1:
                raise InputError("bad tile", where=f"Tile.{name}", got=getattr(self, name), expected="1 or more")


def choose_tile(n: int, k: int, capacity: int, dtype: torch.dtype) -> Tile:
    """The tile of a GEMM with `capacity` rows, n outputs and k inputs.

    In the interpreter it depends on n and k alone, so that there a row's bits do not depend on the capacity either.
    """
    if interpreted():
        # an operation costs 0.1 ms whatever its size: the largest blocks that the interpreter takes
        return Tile(block_m=16, block_n=_block(n, 256), block_k=_block(k, 256))
    if dtype == torch.float32:
        return Tile(block_m=_block(capacity, 32), block_n=64, block_k=32, stages=2)
    if capacity <= 64:
        return Tile(block_m=_block(capacity, 64), block_n=64, block_k=_block(k, 128), stages=4)
    block_n = 128
    while block_n > 32 and cdiv(capacity, 128) * cdiv(n, block_n) < _ENOUGH_TILES:
        block_n //= 2
    return Tile(block_m=128, block_n=block_n, block_k=_block(k, 64), warps=8)


def row_blocks(capacity: int, columns: int) -> tuple[int, int]:
    """Rows and columns of a block of a kernel that works element by element; they do not touch the result."""
    if interpreted():
        return _block(capacity, 64), _block(columns, 1024)
    return 4, 256


def _block(size: int, largest: int) -> int:
    return int(min(max(next_power_of_2(size), 16), largest))
