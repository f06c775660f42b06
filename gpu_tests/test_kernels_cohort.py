"""The fused cohort plan on a GPU: every size class, and in a captured graph over changing tapes."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from gpu_tests.graphs import check_replays
from properties.kernels.cohort import check_cohort
from vskipper.cohort import empty_plan
from vskipper.kernels.cohort import plan_cohorts


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 256, 511, 512, 513, 1024, 4097, 8192, 8200, 20000])
@pytest.mark.parametrize("codes", [4, 6])
def test_plan_equals_the_twin(n: int, codes: int, device: torch.device) -> None:
    draw = torch.Generator().manual_seed(n)
    actions = torch.randint(0, codes, (n,), generator=draw).tolist()
    for share in (0.0, 0.5, 1.0):
        check_cohort(actions, (torch.rand(n, generator=draw) < share).tolist(), device, plan_cohorts)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_one_cohort_takes_all(code: int, device: torch.device) -> None:
    check_cohort([code] * 1030, [True] * 1030, device, plan_cohorts, spare=0)


@pytest.mark.parametrize("rows", [1, 64, 777])
def test_replay_equals_eager(rows: int, device: torch.device) -> None:
    actions = torch.zeros(rows, dtype=torch.uint8, device=device)
    valid = torch.ones(rows, dtype=torch.bool, device=device)
    plan = empty_plan(rows, device)

    def change(running: int, padding: int, seed: int) -> None:
        order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
        actions.copy_(torch.where(order < running, 3, order % 3).to(torch.uint8))
        valid.copy_(torch.arange(rows) < rows - padding)

    half = rows // 2
    counts = (0, 1, max(half - 1, 0), half, half + 1, rows, 0)
    changes = [partial(change, n, padding, seed) for seed, n in enumerate(counts) for padding in (0, half)]
    check_replays(lambda: plan_cohorts(actions, valid, plan), [plan.rows, plan.offsets], changes)
