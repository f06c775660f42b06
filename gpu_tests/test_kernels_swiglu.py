"""silu-mul, scatter and SwiGLU at the shapes of real models; plan, MLP and projector of a layer in one graph."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from gpu_tests.graphs import check_replays
from gpu_tests.needs import far_memory, together
from gpu_tests.shapes import MODELS, counts
from properties.kernels.far import ROWS_BYTES, check_far_rows
from properties.kernels.gemm import GemmCase
from properties.kernels.judge import eighths, normals
from properties.kernels.swiglu import check_scatter, check_silu_mul, check_swiglu
from vskipper.cohort import empty_plan
from vskipper.kernels.cohort import plan_cohorts
from vskipper.kernels.scatter import scatter_rows
from vskipper.kernels.silu_mul import silu_mul
from vskipper.kernels.swiglu import SwiGLUScratch, swiglu
from vskipper.policy import SwiGLU

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("capacity", [1, 7, 64, 300])
def test_silu_mul_and_scatter(capacity: int, dtype: torch.dtype, device: torch.device) -> None:
    for count in counts(capacity):
        for n, strided in ((36, True), (14336, False)):
            case = GemmCase(rows=capacity, start=capacity - count, count=count, n=n, k=1, dtype=dtype, strided=strided)
            check_silu_mul(case, device, silu_mul)
            for scale, add in ((False, False), (True, False), (True, True)):
                given = GemmCase(
                    rows=capacity, start=0, count=count, n=n, k=1, dtype=dtype, strided=strided, scale=scale, add=add
                )
                check_scatter(given, device, scatter_rows)


@pytest.mark.parametrize("share", [1, 16])
@pytest.mark.parametrize("model", MODELS)
def test_swiglu(model: str, share: int, device: torch.device) -> None:
    """The MLP (share 1) and FlexiDepth's projector (share 16)."""
    hidden, intermediate, *_ = MODELS[model]
    for capacity in (16, 64, 200):
        for count in counts(capacity):
            case = GemmCase(
                rows=capacity, start=0, count=count, n=intermediate // share, k=hidden, dtype=torch.bfloat16, scale=True
            )
            check_swiglu(case, device, swiglu, SwiGLUScratch.allocate)


@together
def test_far_rows(device: torch.device) -> None:
    with far_memory(ROWS_BYTES):
        check_far_rows(device, scatter_rows, silu_mul)


@pytest.mark.parametrize("rows", [16, 256])
def test_replay_equals_eager(rows: int, device: torch.device) -> None:
    hidden, intermediate, dtype = 4096, 14336, torch.bfloat16
    y, scale = normals((rows, hidden), 0, dtype, device), eighths(rows, 1, dtype, device)
    mlp, projector = (
        SwiGLU(
            w_in=normals((2 * width, hidden), 2, dtype, device) / 64,
            w_out=normals((hidden, width), 3, dtype, device) / 64,
        )
        for width in (intermediate, intermediate // 16)
    )
    actions = torch.zeros(rows, dtype=torch.uint8, device=device)
    valid = torch.ones(rows, dtype=torch.bool, device=device)
    plan, out = empty_plan(rows, device), torch.empty_like(y)
    scratch = SwiGLUScratch.allocate(rows, intermediate, dtype, device)

    def step() -> None:
        plan_cohorts(actions, valid, plan)
        swiglu(y, mlp, plan.mlp, scale, out, scratch)
        swiglu(y, projector, plan.projector, 1 - scale, out, scratch)

    def change(running: int) -> None:
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(running))
        actions.copy_((order < running).to(torch.uint8) * 3)
        valid.copy_(order % 9 != 8)

    half = rows // 2
    changes = [partial(change, n) for n in (0, 1, half - 1, half, half + 1, rows, 0)]
    check_replays(step, [out, plan.rows, plan.offsets], changes)
