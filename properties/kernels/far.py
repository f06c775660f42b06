"""Checks of addresses: rows, weights and slots whose offset passes 2**31 elements, in memory that is never filled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from properties.kernels.judge import expect_bits, make_span

_STRIDE = 2**20
FAR = 2**11 + 1
# that the check of slots holds, and that each of the others does: three tensors of two bytes an element
SLOTS_BYTES: Final = FAR * _STRIDE
ROWS_BYTES: Final = 3 * 2 * FAR * _STRIDE


def far(columns: int, device: torch.device) -> Tensor:
    """bfloat16 [FAR + 1, columns] whose last row begins beyond element 2**31; a CPU gives only touched pages."""
    flat = torch.empty(FAR * _STRIDE + columns, dtype=torch.bfloat16, device=device)
    return flat.as_strided((FAR + 1, columns), (_STRIDE, 1))


def check_far_gemm(device: torch.device, gemm: Callable[..., None]) -> None:
    """Far rows of `a`, of the weight and of `out`."""
    a, weight, out = (far(16, device) for _ in range(3))
    a[FAR], a[1], weight[FAR], weight[1] = 3.0, 2.0, 1.0, 2.0
    eye = torch.eye(16, dtype=torch.bfloat16, device=device)
    gemm(a, eye, make_span([FAR, 1], 0, 2, device), out, gather=True, scatter=True)
    _expect("gemm_far_rows", out[[FAR, 1]], a[[FAR, 1]])
    wide = torch.empty(1, FAR + 1, dtype=torch.bfloat16, device=device)
    gemm(torch.ones_like(eye[:1]), weight, make_span([0], 0, 1, device), wide, gather=True, scatter=True)
    _expect("gemm_far_weight", wide[0, [FAR, 1]], torch.tensor([16.0, 32.0], device=device).to(wide.dtype))


def check_far_rows(device: torch.device, scatter_rows: Callable[..., None], silu_mul: Callable[..., None]) -> None:
    """Far rows of a scatter's `out`; packed rows so far apart that the third is far."""
    out, src = far(16, device), torch.full((2, 16), 5.0, dtype=torch.bfloat16, device=device)
    scatter_rows(src, make_span([FAR, 1], 0, 2, device), out)
    _expect("scatter_far_rows", out[[FAR, 1]], src)
    gate_up, packed = (far(16, device).as_strided((3, n), (FAR * _STRIDE // 2, 1)) for n in (16, 8))
    gate_up[:] = torch.tensor([1.0, 2.0, 3.0], device=device)[:, None]
    near = torch.empty(3, 8, dtype=torch.bfloat16, device=device)
    for target in (packed, near):
        silu_mul(gate_up if target is packed else gate_up.contiguous(), make_span([0, 1, 2], 0, 3, device), target)
    _expect("silu_mul_far_rows", packed, near)


def check_far_slots(device: torch.device, decode: Callable[..., None], index_dtype: torch.dtype) -> None:
    """A float8 pool of 2 GiB, K and V side by side in it."""
    pool = torch.empty(FAR * _STRIDE + 64, dtype=torch.uint8, device=device)
    k, v = (pool.as_strided((FAR + 1, 2, 16), (_STRIDE, 16, 1), 32 * i) for i in range(2))
    for slot, value in ((FAR, 2.0), (1, 1.0)):
        for side in (k, v):
            side[slot] = torch.full((2, 16), value, device=device).to(torch.float8_e4m3fn).view(torch.uint8)
    q = torch.ones(2, 2, 16, dtype=torch.bfloat16, device=device)
    out = torch.empty_like(q)
    decode(
        q,
        k.view(torch.float8_e4m3fn),
        v.view(torch.float8_e4m3fn),
        torch.tensor([0, 1, 3], dtype=torch.int32, device=device),
        torch.tensor([FAR, 1, 1], dtype=index_dtype, device=device),
        torch.full((2,), 3, dtype=torch.uint8, device=device),
        torch.ones(2, dtype=torch.bool, device=device),
        out,
        softmax_scale=1.0,
    )
    _expect("decode_far_slots", out, torch.stack((torch.full_like(q[0], 2.0), q[1])))


def _expect(reason: str, got: Tensor, expected: Tensor) -> None:
    expect_bits("MAP-3", reason, got, expected)
