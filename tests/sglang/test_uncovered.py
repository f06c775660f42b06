"""What becomes of requests whose batch no routed graph covers, and of what is counted of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vskipper.policy import PolicyCapabilities
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.process import Serving
from vskipper.sglang.request import RequestMode, RequestPlan, new_state

ROUTED = RequestPlan(prefill=RequestMode.ROUTED, decode=RequestMode.ROUTED)
DENSE = RequestPlan(prefill=RequestMode.DENSE, decode=RequestMode.DENSE)


class Passes:
    """In place of the engine's counters."""

    def __init__(self) -> None:
        self.modes: list[str] = []

    def dense_pass(self, *, uncovered: bool) -> None:
        self.modes.append("uncovered" if uncovered else "dense")

    def routed_pass(self, evidence: Any) -> None:
        self.modes.append("routed")

    def promoted(self) -> None: ...

    def failed(self) -> None: ...


def request(plan: RequestPlan) -> Any:
    state = new_state(plan, "a", 3)
    cached = {"extra_key": None, "skip_radix_cache_insert": False}
    return SimpleNamespace(vskipper=state, output_ids=[5], is_retracted=False, **cached)


def decode(lengths: list[int]) -> tuple[torch.Tensor, torch.Tensor, Any]:
    ids = torch.zeros(len(lengths), dtype=torch.int64)
    mode = SimpleNamespace(is_decode=lambda: True)
    return ids, torch.tensor(lengths) - 1, SimpleNamespace(forward_mode=mode, seq_lens_cpu=torch.tensor(lengths))


@pytest.mark.parametrize("tolerates", [True, False])
def test_its_rows_run_dense_and_so_do_later_ones_of_a_policy_that_tolerates_no_dense_prefix(tolerates: bool) -> None:
    capabilities = PolicyCapabilities(
        needs_router=True, needs_projector=True, prefix_determined=True, tolerates_dense_prefix=tolerates
    )
    policy = SimpleNamespace(capabilities=capabilities)
    served: Any = SimpleNamespace(policy=policy, routed_layers=(1, 2), routes="")
    passes = Passes()
    serving = Serving(EngineConfig(policy="flexidepth"), served, passes)  # type: ignore[arg-type]
    batch = SimpleNamespace(reqs=[request(ROUTED), request(DENSE)])
    ran = serving.open_batch(batch)
    assert ran.plan(*decode([4, 4])) is not None
    ran.uncovered()
    serving.close_batch(batch, ran)
    states = [each.vskipper for each in batch.reqs]
    assert [state.uncovered for state in states] == [2, 0]
    assert [each.skip_radix_cache_insert for each in batch.reqs] == [True, False]
    assert passes.modes == ["uncovered"] and serving.facts()["uncovered_passes"] == 1

    again = serving.open_batch(batch)
    assert again.is_routed(decode([5, 5])[2]) == tolerates
    assert states[0].mode(2) == RequestMode.ROUTED
    # what it computes again after a retraction runs in the mode that it has now
    assert (states[0].mode(3) == RequestMode.ROUTED) == tolerates
