"""Masked paged-decode attention at the head shapes of real models, float8 pools, and in a captured graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from gpu_tests.graphs import check_replays
from gpu_tests.needs import far_memory, needs_float8, together
from gpu_tests.shapes import MODELS
from properties.kernels.decode_attention import (
    DecodeCase,
    check_decode_envelope,
    check_decode_invariance,
    check_needles,
)
from properties.kernels.far import SLOTS_BYTES, check_far_slots
from properties.kernels.judge import normals
from vskipper.kernels.decode_attention import paged_decode

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MIXED = DecodeCase(
    lengths=(1, 31, 32, 33, 0, 63, 64, 65, 700, 513, 2048, 300),
    actions=(3, 1, 3, 1, 3, 3, 1, 3, 0, 3, 1, 2),
    valid=(True, True, True, True, True, True, True, False, True, True, True, True),
)


def case_of(model: str, dtype: torch.dtype, kv_dtype: torch.dtype | None = None) -> DecodeCase:
    _, _, heads, kv_heads, head_dim = MODELS[model]
    return replace(MIXED, heads=heads, kv_heads=kv_heads, head_dim=head_dim, dtype=dtype, kv_dtype=kv_dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", ["llama-3-8b", "smollm2-135m"])
def test_real_shapes(model: str, dtype: torch.dtype, device: torch.device) -> None:
    case = case_of(model, dtype)
    check_needles(case, device, paged_decode)
    check_decode_envelope(case, device, paged_decode)
    check_decode_invariance(case, device, paged_decode)


@pytest.mark.parametrize("kv_dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_narrow_pools(dtype: torch.dtype, kv_dtype: torch.dtype, device: torch.device) -> None:
    if kv_dtype == torch.float8_e4m3fn:
        needs_float8()
    case = replace(case_of("smollm2-135m", dtype, kv_dtype), k_scale=0.5, v_scale=2.0)
    check_needles(case, device, paged_decode)
    if (dtype, kv_dtype) != (torch.float16, torch.bfloat16):
        check_decode_envelope(case, device, paged_decode)


@pytest.mark.parametrize(("group", "head_dim"), [(1, 16), (5, 80), (4, 128), (32, 256)])
def test_head_shapes(group: int, head_dim: int, device: torch.device) -> None:
    for dtype in DTYPES:
        case = replace(MIXED, heads=2 * group, kv_heads=2, head_dim=head_dim, dtype=dtype, index_dtype=torch.int32)
        check_needles(case, device, paged_decode)


@together
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_far_slots(index_dtype: torch.dtype, device: torch.device) -> None:
    needs_float8()
    with far_memory(SLOTS_BYTES):
        check_far_slots(device, paged_decode, index_dtype)


def test_replay_equals_eager(device: torch.device) -> None:
    rows, context = 32, 300
    q = normals((rows, 32, 128), 0, torch.bfloat16, device)
    k, v = (normals((rows * context, 8, 128), seed, torch.bfloat16, device) for seed in (1, 2))
    ends = torch.zeros(rows + 1, dtype=torch.int32, device=device)
    slots = torch.randperm(rows * context, device=device)
    actions = torch.zeros(rows, dtype=torch.uint8, device=device)
    valid = torch.ones(rows, dtype=torch.bool, device=device)
    out = torch.empty_like(q)

    def change(running: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        ends[1:].copy_(torch.randint(0, context + 1, (rows,), generator=draw).cumsum(0))
        actions.copy_((torch.randperm(rows, generator=draw) < running).to(torch.uint8) * 3)
        valid.copy_(torch.rand(rows, generator=draw) < 0.9)

    check_replays(
        lambda: paged_decode(q, k, v, ends, slots, actions, valid, out, softmax_scale=128**-0.5),
        [out],
        [partial(change, n, n) for n in (0, 1, 15, 16, 17, rows, 0)],
    )
