"""Faults of the executor, tried in SGLang's own passes as a certification of the engine tries them."""

from __future__ import annotations

import pytest

from conformance.faults.registry import FAULTS
from conformance.request import CertifyRequest
from conformance.runner.kill import run_fault
from conformance.runtime_names import ENGINE
from tests.engine import needs_sglang

REQUEST = CertifyRequest(policy="random-skip", model="tiny-llama", work_dir="/nowhere", runtime=ENGINE)
# one of each killer
FOLLOWING = {fault.killer: fault for fault in FAULTS if ENGINE in fault.follows}


def test_killers_of_every_part_of_the_executor_meet_a_fault_there() -> None:
    assert {"kv.complete", "kv.own_layer", "map.partition", "sem.outputs", "work.counts", "pad.inert"} <= set(FOLLOWING)


@needs_sglang
@pytest.mark.parametrize("killer", sorted(FOLLOWING))
def test_a_fault_of_the_executor_is_seen_in_the_engine(killer: str) -> None:
    kill = run_fault(FOLLOWING[killer], REQUEST)
    assert kill.ok, kill.outcomes
    assert kill.place == "sglang/tiny-llama in float32"
