"""What the suite puts where nobody should look: the content of padding rows, and the entries of a map past its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from reference.plan import Fill, StepPlan
from vskipper.cohort import CohortPlan, empty_plan
from vskipper.execution import routed_pass

FILLS: dict[Fill, float] = {"zero": 0.0, "nan": float("nan"), "inf": float("inf")}
UNWRITTEN = -1


@contextmanager
def padded(decoder: Any, plan: StepPlan, old: Tensor) -> Iterator[None]:
    """Have the padding rows of the pass enter the first layer as plan.fill. old: rows [n, hidden] of the last pass."""

    def fill(module: Any, given: Any, embedded: Tensor) -> Tensor:
        if plan.padding and plan.fill == "old":
            rows = old.repeat(plan.padding, 1)[: plan.padding]
            embedded[plan.rows : plan.rows + rows.shape[0]] = rows
        elif plan.padding:
            embedded[plan.rows :] = FILLS[plan.fill]
        return embedded

    handle = decoder.embed_tokens.register_forward_hook(fill)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def marked_maps() -> Iterator[None]:
    """Fill every cohort map with a number of no row before it is planned."""

    def marked(capacity: int, device: torch.device | str) -> CohortPlan:
        plan = empty_plan(capacity, device)
        plan.rows.fill_(UNWRITTEN)
        return plan

    with mock.patch.object(routed_pass, "empty_plan", marked):
        yield
