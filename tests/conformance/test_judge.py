"""When a level is granted, and every single thing that keeps it from being."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from conformance.certificate.judge import Decision, decide
from conformance.certificate.record import EngineIdentity, Kill, Status
from conformance.certificate.waivers import apply_waivers, parse_waivers
from tests.conformance.sample import MUST_PASS, WAIVER, Run, failed, good_run


def judged(run: Run) -> Decision:
    waivers = parse_waivers(run.waivers)
    return decide(run.manifest, MUST_PASS, apply_waivers(waivers, run.results), run.kills, waivers)


def outcome(fault: str, property: str, said: str) -> Callable[[Run], Run]:
    def change(kill: Kill) -> Kill:
        return replace(kill, outcomes={**kill.outcomes, property: said}).rejudged()

    return lambda run: run.with_kill(fault, change)


def status(property: str, value: Status) -> Callable[[Run], Run]:
    return lambda run: run.with_result(property, lambda result: replace(result, status=value))


def examples(property: str, count: int) -> Callable[[Run], Run]:
    return lambda run: replace(run, manifest=replace(run.manifest, examples={**run.manifest.examples, property: count}))


def test_a_good_run_is_granted() -> None:
    assert judged(good_run()) == Decision(reduced=False, reasons=())


def test_a_waived_failure_does_not_deny_the_level() -> None:
    assert judged(replace(good_run().with_result("kv.footprint", failed), waivers=WAIVER)).granted


def test_a_counter_that_the_level_does_not_name_may_be_zero() -> None:
    run = good_run().with_result("kv.scale", lambda r: replace(r, counters={**r.counters, "aside": 0}))
    assert judged(run).granted


def test_an_optional_property_may_be_unsupported() -> None:
    assert judged(status("map.layout", Status.UNSUPPORTED)(good_run())).granted


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run: run.with_result("kv.scale", failed), "kv.scale (KV-4): failed"),
        (status("kv.scale", Status.VACUOUS), "kv.scale (KV-4): vacuous"),
        (status("kv.scale", Status.BLOCKED), "kv.scale (KV-4): blocked"),
        (status("kv.scale", Status.UNSUPPORTED), "the level does not do without it"),
        (status("kv.scale", Status.UNEXPECTED_PASS), "kv.scale (KV-4): unexpected pass"),
        (status("kv.scale", Status.EXPECTED_FAILURE), "expected failure without a waiver"),
        (lambda run: run.with_result("kv.scale", lambda r: replace(r, counters={"scaled": 0})), "vacuous: counter"),
        (lambda run: run.with_result("kv.scale", lambda r: replace(r, counters={})), "without its vacuity counter"),
        (lambda run: run.with_result("kv.scale", lambda r: replace(r, examples=19)), "19 examples, declared 20"),
        (lambda run: run.with_result("sem.envelope", lambda r: replace(r, margin=1.01)), "margin of 1.01"),
        (lambda run: run.with_result("kv.scale", lambda r: replace(r, clause="KV-3")), "got KV-3, expected KV-4"),
        (lambda run: run.with_result("kv.scale", lambda r: replace(failed(r), status=r.status)), "failure on record"),
        (lambda run: replace(run, results=run.results[1:]), "property kv.complete is missing"),
        (lambda run: replace(run, results=(*run.results, run.results[0])), "kv.complete stands 2 times"),
        (lambda run: replace(run, results=run.results[::-1]), "order, entry 1: got input.refused"),
        (
            lambda run: run.with_result("kv.scale", lambda r: replace(r, property="kv.made_up")),
            "kv.made_up is not on the must-pass list",
        ),
        (lambda run: replace(run, waivers=WAIVER), "kv.footprint (KV-2): unexpected pass"),
        (lambda run: replace(run, kills=run.kills[1:]), "fault kv_complete_first is missing"),
        (outcome("kv_scale_first", "kv.scale", "quiet"), "got quiet, expected killed:first_seen"),
        (outcome("kv_scale_first", "kv.scale", "killed:crash"), "got killed:crash, expected killed:first_seen"),
        (outcome("kv_scale_first", "sem.envelope", "killed:x"), "sem.envelope: got killed:x, expected quiet"),
        (
            lambda run: run.with_kill("kv_scale_first", lambda k: replace(k, quiet=())),
            "expected kv.scale for first_seen, quiet",
        ),
        (
            lambda run: run.with_kill("kv_scale_first", lambda k: replace(k, killed=False)),
            "verdict: got survived, quiet, expected killed, quiet",
        ),
    ],
)
def test_one_defect_denies_the_level_and_is_named(change: Callable[[Run], Run], reason: str) -> None:
    decision = judged(change(good_run()))
    assert not decision.granted
    assert any(reason in line for line in decision.reasons), decision.reasons


@pytest.mark.parametrize(("counters", "granted"), [({}, True), ({"met": 3}, True), ({"met": 0}, False)])
def test_a_conditional_counter_may_be_absent_and_not_zero(counters: dict[str, int], granted: bool) -> None:
    needs = (replace(MUST_PASS.requirements[0], conditional=("met",)), *MUST_PASS.requirements[1:])
    run = good_run().with_result(
        "kv.complete", lambda result: replace(result, counters={**result.counters, **counters})
    )
    decision = decide(run.manifest, replace(MUST_PASS, requirements=needs), run.results, run.kills, ())
    assert decision.granted == granted
    assert granted or any("vacuous: counter met is 0" in line for line in decision.reasons)


@pytest.mark.parametrize("change", [examples("kv.scale", 19), lambda run: replace(run, kills=())])
def test_a_reduced_run_is_stamped_and_grants_nothing(change: Callable[[Run], Run]) -> None:
    decision = judged(change(good_run()))
    assert decision.reduced and not decision.granted
    assert decision.reasons[-1].startswith("REDUCED")


def test_a_clause_that_no_supported_property_decides_denies_the_level() -> None:
    run = good_run()
    for property in ("map.row_order", "map.layout"):
        run = status(property, Status.UNSUPPORTED)(run)
    assert "clause MAP-3: no property decides it" in judged(run).reasons


def test_a_property_that_killed_nothing_is_not_believed() -> None:
    run = good_run()
    for kind in ("first", "second"):
        run = outcome(f"kv_scale_{kind}", "kv.scale", "quiet")(run)
    assert "kv.scale (KV-4): killed no fault, so nothing shows that it can fail" in judged(run).reasons


def test_a_fault_whose_killer_the_subject_cannot_run_is_missed_only_there() -> None:
    run = good_run()
    for kind in ("first", "second"):
        run = outcome(f"map_layout_{kind}", "map.layout", "unsupported")(run)
    assert "fault map_layout_first: map.layout: got unsupported, expected killed:first_seen" in judged(run).reasons
    assert judged(status("map.layout", Status.UNSUPPORTED)(run)).granted


@pytest.mark.parametrize(("backend", "granted"), [("fa3", True), ("triton", False), (None, False)])
def test_a_fault_of_another_attention_backend_is_not_asked_for(backend: str | None, granted: bool) -> None:
    run = good_run()
    engine = EngineIdentity(name="SGLang", version="0.5.16", device="cuda", attention_backend=backend)
    run = replace(run, manifest=replace(run.manifest, engine=engine), kills=run.kills[1:])
    of_triton = replace(MUST_PASS.faults[0], backends=("triton", "flashinfer"))
    if backend is None:
        of_triton = replace(of_triton, backends=())
    must_pass = replace(MUST_PASS, faults=(of_triton, *MUST_PASS.faults[1:]))
    decision = decide(run.manifest, must_pass, run.results, run.kills, ())
    assert decision.granted == granted
    assert granted or f"kill matrix: fault {of_triton.fault} is missing" in decision.reasons


def on_a_gpu(run: Run) -> Run:
    """The same on an engine's runtime, of which the level then knows places."""
    engine = EngineIdentity(name="SGLang", version="0.5.16", device="cuda", attention_backend="fa3")
    return replace(run, manifest=replace(run.manifest, runtimes=("sglang-cuda",), dtypes=("bfloat16",), engine=engine))


def test_a_fault_that_follows_the_runtime_is_tried_as_that_is_certified() -> None:
    run = on_a_gpu(good_run())
    fault, others = MUST_PASS.faults[0], MUST_PASS.faults[1:]
    follows = replace(fault, places=("torch/tiny-llama", "sglang-cuda/small-llama"))
    must_pass = replace(MUST_PASS, faults=(follows, *others))
    reasons = "\n".join(decide(run.manifest, must_pass, run.results, run.kills, ()).reasons)
    expected = "expected sglang-cuda/small-llama in bfloat16 with fa3"
    assert f"fault {fault.fault}: tried on torch/tiny-llama in float32, {expected}" in reasons
    assert reasons.count("tried on") == 1
    there = {"runtime": "sglang-cuda", "model": "small-llama", "dtype": "bfloat16", "attention_backend": "fa3"}
    run = run.with_kill(fault.fault, lambda kill: replace(kill, **there))
    assert "tried on" not in "\n".join(decide(run.manifest, must_pass, run.results, run.kills, ()).reasons)
