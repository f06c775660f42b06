"""What becomes of requests whose batch no routed graph covers, and of what is counted of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vskipper.policy import Phase, PolicyCapabilities
from vskipper.sglang import namespace
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
    return SimpleNamespace(vskipper=state, origin_input_ids=[1, 2, 3], output_ids=[5], is_retracted=False, **cached)


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
    assert again.plan(*decode([5, 5])) is None or tolerates
    serving.close_batch(batch, again)
    # a row that a graph covers is counted by its evidence
    assert states[0].uncovered == (2 if tolerates else 4)
    # all of it again after a retraction: rows run in the mode in which they ran first
    assert [states[0].mode(position) for position in (2, 3)] == [RequestMode.ROUTED, RequestMode.DENSE]
    assert (states[0].mode(4) == RequestMode.ROUTED) == tolerates


def test_what_a_fallen_request_computes_again_is_its_own() -> None:
    policy = SimpleNamespace(capabilities=PolicyCapabilities(prefix_determined=True, tolerates_dense_prefix=True))
    served: Any = SimpleNamespace(policy=policy, routed_layers=(1, 2), routes="r")
    serving = Serving(EngineConfig(policy="random-skip"), served, Passes())  # type: ignore[arg-type]
    fallen, whole = request(ROUTED), request(ROUTED)
    for each in (fallen, whole):
        each.vskipper_user_key, each.extra_key = None, "shared"
    fallen.vskipper.fall(3, for_good=False)
    for each in (fallen, whole):
        serving.retracted(each)
    assert namespace.is_private(fallen.extra_key) and whole.extra_key == "shared"


def test_a_prompt_that_was_cut_ends_where_it_was_cut() -> None:
    policy = SimpleNamespace(capabilities=PolicyCapabilities())
    served: Any = SimpleNamespace(policy=policy, routed_layers=(1, 2), routes="")
    serving = Serving(EngineConfig(policy="random-skip"), served, Passes())  # type: ignore[arg-type]
    cut = request(ROUTED)
    cut.origin_input_ids = [1, 2]
    serving.open_batch(SimpleNamespace(reqs=[cut]))
    assert cut.vskipper.phase(2) == Phase.DECODE
