"""The count-bounded GEMM at the shapes of real models, every tile, every count edge, and in a captured graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from gpu_tests.graphs import check_replays
from gpu_tests.needs import far_memory, together
from gpu_tests.shapes import counts, gemms
from properties.kernels.far import ROWS_BYTES, check_far_gemm
from properties.kernels.gemm import (
    GemmCase,
    check_gemm,
    check_gemm_envelope,
    check_gemm_invariance,
    check_gemm_unit_scale,
)
from properties.kernels.judge import integers, make_span, normals
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.tile import Tile, choose_tile

TILES = (
    Tile(block_m=16, block_n=32, block_k=128),
    Tile(block_m=16, block_n=64, block_k=64, stages=4),
    Tile(block_m=32, block_n=64, block_k=128),
    Tile(block_m=64, block_n=64, block_k=128, stages=4),
    Tile(block_m=64, block_n=128, block_k=64, group=1),
    Tile(block_m=128, block_n=32, block_k=64, warps=8),
    Tile(block_m=128, block_n=128, block_k=64, warps=8),
    Tile(block_m=128, block_n=256, block_k=64, warps=8),
)


@pytest.mark.parametrize("capacity", [1, 16, 64, 200])
@pytest.mark.parametrize(("n", "k"), gemms())
def test_exact_at_real_shapes(n: int, k: int, capacity: int, device: torch.device) -> None:
    for number, count in enumerate(counts(capacity)):
        case = GemmCase(
            rows=capacity, start=(capacity - count) // 2, count=count, n=n, k=k, dtype=torch.bfloat16, seed=number
        )
        check_gemm(replace(case, scale=True), device, bounded_gemm)
        check_gemm(replace(case, gather=False, add=True), device, bounded_gemm)
        check_gemm(replace(case, scatter=False, strided=True), device, bounded_gemm)


@pytest.mark.parametrize(
    ("tile", "dtype"),
    [(tile, torch.bfloat16) for tile in TILES]
    # kernels take seconds to compile: the other dtypes at every other tile
    + [(tile, dtype) for dtype in (torch.float16, torch.float32) for tile in TILES[1::2]],
)
def test_every_tile_at_every_count_edge(tile: Tile, dtype: torch.dtype, device: torch.device) -> None:
    if dtype == torch.float32:
        tile = replace(tile, block_n=min(tile.block_n, 64), block_k=32, stages=2)
    rows = 2 * tile.block_m + 3
    edges = (0, 1, tile.block_m - 1, tile.block_m, tile.block_m + 1, 2 * tile.block_m, rows)
    for count in edges:
        for k in (36, 256):
            case = GemmCase(rows=rows, start=rows - count, count=count, n=300, k=k, dtype=dtype, scale=True, add=True)
            check_gemm(case, device, partial(bounded_gemm, tile=tile))
    case = GemmCase(rows=rows, start=1, count=rows // 2, n=300, k=260, dtype=dtype)
    check_gemm_invariance(case, device, partial(bounded_gemm, tile=tile))


@pytest.mark.parametrize("capacity", [16, 64, 200])
@pytest.mark.parametrize(("n", "k"), gemms())
def test_invariance_and_envelope_at_real_shapes(n: int, k: int, capacity: int, device: torch.device) -> None:
    case = GemmCase(rows=capacity, start=2, count=capacity // 2, n=n, k=k, dtype=torch.bfloat16, scale=True)
    check_gemm_invariance(case, device, bounded_gemm)
    check_gemm_unit_scale(case, device, bounded_gemm)
    check_gemm_envelope(case, device, bounded_gemm)


def test_float32_is_not_tf32(device: torch.device) -> None:
    for capacity in (16, 200):
        case = GemmCase(rows=capacity, start=0, count=capacity, n=576, k=1536)
        check_gemm_envelope(case, device, bounded_gemm)


@together
def test_far_rows(device: torch.device) -> None:
    with far_memory(ROWS_BYTES):
        check_far_gemm(device, bounded_gemm)


@pytest.mark.parametrize("capacity", [64, 256])
@pytest.mark.parametrize("exact", [True, False])
def test_replay_equals_eager(exact: bool, capacity: int, device: torch.device) -> None:
    draw = integers if exact else normals
    a, weight = (draw(shape, 1, torch.bfloat16, device) for shape in ((capacity, 4096), (1792, 4096)))
    ends = torch.tensor([0, capacity // 2], dtype=torch.int32, device=device)
    span = replace(make_span(list(range(capacity)), 0, 0, device), start=ends[0], stop=ends[1])
    out = torch.empty(capacity, 1792, dtype=torch.bfloat16, device=device)

    def change(count: int, start: int) -> None:
        ends.copy_(torch.tensor([start, start + count], dtype=torch.int32))

    captured = capacity // 2
    sequence = (0, 1, captured - 1, captured, captured + 1, capacity, 0, captured)
    check_replays(
        lambda: bounded_gemm(a, weight, span, out, gather=True, scatter=True),
        [out],
        [partial(change, count, (capacity - count) // 3) for count in sequence],
    )


def test_the_tile_depends_on_the_capacity_alone(device: torch.device) -> None:
    """Never on a count: choose_tile is not given one. Small capacities do not pay for large blocks."""
    assert choose_tile(4096, 4096, 16, torch.bfloat16).block_m == 16
    assert choose_tile(4096, 4096, 512, torch.bfloat16).block_m == 128
