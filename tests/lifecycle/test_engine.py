"""The level's properties on SGLang's own scheduler, with few examples, and each fails where a fault says so."""

from __future__ import annotations

import pytest

from conformance.faults.active import active_fault
from conformance.faults.fault import Fault
from conformance.faults.registry import GRAPH_FAULTS, LIFECYCLE_FAULTS
from conformance.runner.kill import run_fault
from conformance.runtimes.sglang.process import prepare, quiet_engine
from conformance.subjects import SubjectSpec, build_subject
from properties.codec import decode, encode
from properties.lifecycle.engine import engine_of
from properties.property import Property
from properties.registry import LIFECYCLE
from properties.run import draw_cases, run_property
from tests.engine import needs_sglang
from vskipper.errors import InputError

# one fault of each killer that bites on a CPU
FAULTS = {fault.killer: fault for fault in LIFECYCLE_FAULTS if not fault.backends}


@needs_sglang
@pytest.mark.parametrize("rule", LIFECYCLE, ids=lambda rule: rule.id)
def test_cases_travel_as_text(rule: Property) -> None:
    subject = build_subject(SubjectSpec(runtime="sglang", model="tiny-llama"))
    for case in draw_cases(rule, subject, 5, seed=0):
        assert decode(encode(case)) == case


def test_every_property_is_a_killer_and_faults_name_properties_of_the_level() -> None:
    ids = {rule.id for rule in LIFECYCLE}
    assert {fault.killer for fault in LIFECYCLE_FAULTS} == ids
    for fault in LIFECYCLE_FAULTS:
        assert fault.quiet
        assert set(fault.quiet) <= ids - {fault.killer}


def test_a_runtime_without_an_engine_is_refused() -> None:
    with pytest.raises(InputError, match="one with an engine"):
        engine_of(build_subject(SubjectSpec(runtime="torch", model="tiny-llama")))


@needs_sglang
@pytest.mark.parametrize("rule", LIFECYCLE, ids=lambda rule: rule.id)
def test_holds(rule: Property) -> None:
    outcome = run_property(rule, build_subject(SubjectSpec(runtime="sglang", model="tiny-qwen3")), examples=3, seed=1)
    assert outcome.violation is None, outcome.detail
    assert (outcome.margin is not None) == (rule.compares == "margin")


@needs_sglang
@pytest.mark.parametrize("fault", [*GRAPH_FAULTS, *LIFECYCLE_FAULTS], ids=lambda fault: fault.id)
def test_what_a_fault_replaces_is_there_and_comes_back(fault: Fault) -> None:
    prepare()
    # what it replaces may be the engine's, which is then imported
    with quiet_engine(), fault.active():
        assert active_fault() == fault.id
    assert active_fault() is None


@needs_sglang
@pytest.mark.parametrize("killer", sorted(FAULTS))
def test_sees_a_fault(killer: str) -> None:
    kill = run_fault(FAULTS[killer])
    assert kill.killed, kill.outcomes
    assert kill.quiet_ok, kill.outcomes
