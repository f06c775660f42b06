"""The comparison of a captured graph with eager execution sees what a graph can get wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from gpu_tests.graphs import check_replays
from properties.kernels.judge import integers, make_span
from properties.violation import Violation
from vskipper.kernels.scatter import scatter_rows


@pytest.mark.parametrize("on_host", [False, True])
def test_a_count_that_is_frozen_at_capture_is_seen(on_host: bool, device: torch.device) -> None:
    """A step that reads its count on the host replays the captured count for ever; one that reads it there does not."""
    src = integers((8, 16), 0, torch.bfloat16, device)
    out = torch.empty_like(src)
    ends = torch.tensor([0, 4], dtype=torch.int32, device=device)
    span = replace(make_span(list(range(8)), 0, 0, device), start=ends[0], stop=ends[1])
    host = 4

    def step() -> None:
        if on_host:
            out[:host].copy_(src[:host])
        else:
            scatter_rows(src, span, out)

    def change(count: int) -> None:
        nonlocal host
        host = count
        ends[1] = count

    def check() -> None:
        check_replays(step, [out], [partial(change, count) for count in (4, 7, 0)])

    if not on_host:
        check()
        return
    with pytest.raises(Violation) as caught:
        check()
    assert caught.value.reason == "replay_differs"
    assert caught.value.facts["replay"] == 1
