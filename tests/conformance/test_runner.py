"""Merging results of several subjects, sharing examples out, and replaying a failing case with its fault."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from conformance.certificate.record import Failure, Result, Status
from conformance.faults.registry import FAULTS, LIFECYCLE_FAULTS, fault_by_id
from conformance.must_pass import place_on
from conformance.replay import replay
from conformance.replay_blob import ReplayBlob
from conformance.request import CertifyRequest
from conformance.runner.items import KERNEL_PROPERTIES, full_examples, property_items
from conformance.runner.kill import run_fault
from conformance.runner.merge import merge
from conformance.runner.report_case import failure
from conformance.subjects import SubjectSpec, build_subject
from properties.property import Property
from properties.registry import CORE, by_id
from properties.run import run_property
from vskipper.errors import InputError

REQUEST = CertifyRequest(policy="random-skip", model="tiny-llama", work_dir="/nowhere")
PASSED = Result(
    property="kv.complete",
    clause="KV-1",
    status=Status.PASSED,
    runtime="torch",
    model="tiny-llama",
    examples=10,
    counters={"entries": 7},
    seconds=1.0,
    margin=0.2,
)


def test_examples_add_up_counters_are_the_least_and_the_worst_status_stands() -> None:
    failed = replace(
        PASSED, status=Status.FAILED, model="tiny-qwen3", counters={"entries": 3}, margin=0.9, failure=Failure(line="x")
    )
    merged = merge([PASSED, failed])
    assert (merged.status, merged.examples, merged.margin) == (Status.FAILED, 20, 0.9)
    assert merged.counters == {"entries": 3}
    assert merged.model == "tiny-llama,tiny-qwen3"
    assert merged.failure == Failure(line="x")


def test_a_counter_that_one_subject_lacks_is_zero() -> None:
    assert merge([PASSED, replace(PASSED, counters={})]).counters == {"entries": 0}


@pytest.mark.parametrize("examples", [None, 1, 2, 5, 40])
def test_every_property_gets_its_examples_on_all_its_subjects(examples: int | None) -> None:
    request = replace(REQUEST, examples=examples)
    items = property_items(request)
    for rule in CORE:
        own = [item for item in items if item.rule is rule]
        assert sum(item.examples for item in own) >= full_examples(rule, request)
        assert all(item.examples >= 1 for item in own)
        runtimes = {item.spec.runtime for item in own}
        assert ("triton" in runtimes) == (rule.id in KERNEL_PROPERTIES)


def test_kernel_properties_exist_and_are_structural() -> None:
    assert {by_id(id).scope for id in KERNEL_PROPERTIES} == {"structure"}


@pytest.mark.parametrize("rule", [rule for rule in CORE if rule.compares != "either"], ids=lambda rule: rule.id)
def test_a_property_has_a_margin_exactly_where_it_says_that_it_compares_with_an_envelope(rule: Property) -> None:
    outcome = run_property(rule, build_subject(SubjectSpec(runtime="torch", model="tiny-llama")), examples=4, seed=3)
    assert outcome.violation is None
    assert (outcome.margin is not None) == (rule.compares == "margin")


def test_every_fault_names_properties_that_exist_and_every_property_is_a_killer() -> None:
    ids = {rule.id for rule in CORE}
    for fault in FAULTS:
        assert {fault.killer, *fault.quiet} <= ids
        assert fault.killer not in fault.quiet
        assert fault.quiet
    assert {fault.killer for fault in FAULTS} == ids
    assert len({fault.id for fault in FAULTS}) == len(FAULTS) >= 30


def test_faults_are_tried_on_the_engine_that_is_certified_where_they_bite_there() -> None:
    for runtime, others in (("torch", set()), ("sglang", {"sglang"}), ("server", set()), ("sglang-cuda", set())):
        tried = {place_on(fault.places, runtime).partition("/")[0] for fault in FAULTS}
        assert tried == {"torch", "triton"} | others
    for runtime, place in (
        ("sglang", "sglang/tiny-"),
        ("server", "sglang/tiny-"),
        ("sglang-cuda", "sglang-cuda/small-"),
    ):
        assert all(place_on(fault.places, runtime).startswith(place) for fault in LIFECYCLE_FAULTS)


def test_a_fault_is_tried_and_recorded_on_the_runtime_of_its_own() -> None:
    kill = run_fault(fault_by_id("gpu-not-checked"), replace(REQUEST, runtime="sglang"))
    assert (kill.ok, kill.place) == (True, "torch/tiny-llama in float32")


def test_a_replay_word_brings_the_fault_back_and_passes_without_it() -> None:
    fault, rule = fault_by_id("kv-project-rows-dropped"), by_id("kv.complete")
    spec = SubjectSpec(runtime="torch", model="tiny-llama")
    with fault.active():
        outcome = run_property(rule, build_subject(spec), examples=40, seed=0)
        assert outcome.violation is not None
        found = failure(rule, spec, outcome.case, outcome.violation, 0, fault.id)
    word = shlex.split(found.repro)[-1]
    assert replay(word) == found
    assert "P" in found.tape
    assert replay(replace(ReplayBlob.decode(word), fault=None).encode()) is None


@pytest.mark.parametrize("word", ["", "nonsense", "r1.", "r1.%%%", "r2.eJw", "r1.eJwDAAAAAAE"])
def test_a_damaged_replay_word_is_refused(word: str) -> None:
    with pytest.raises(InputError):
        replay(word)


def test_an_unknown_fault_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="kv-project-rows-dropped"):
        fault_by_id("no-such-fault")
