"""Level graph's properties: the oracle holds them, cases travel as text, and each sees what it is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance.faults.registry import GRAPH_FAULTS
from conformance.runtimes.reference import ReferenceRuntime
from conformance.runtimes.reference_graphs import ReferenceGraphs, ReferenceReplays
from conformance.subjects import SubjectSpec, build_subject
from properties.codec import decode, encode
from properties.graph import far
from properties.graph.case import graph_sizes
from properties.graph.drive import raw_decode
from properties.graph.engine import Decided
from properties.property import Property, Subject
from properties.registry import GRAPH, by_id
from properties.run import draw_cases, run_property
from properties.runtime import StepResult
from reference.plan import Fill, StepPlan, TapePlan
from vskipper.action import Action
from vskipper.errors import InputError

MODELS = ("tiny-llama", "tiny-qwen3")


def subject_of(model: str = "tiny-llama", policy: str = "flexidepth", **settings: object) -> Subject:
    return build_subject(SubjectSpec(runtime="reference", model=model, policy=policy, settings=settings))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rule", [rule for rule in GRAPH if rule.id != "graph.far"], ids=lambda rule: rule.id)
def test_the_oracle_holds(rule: Property, model: str) -> None:
    outcome = run_property(rule, subject_of(model), examples=12, seed=1)
    assert outcome.status == "passed", outcome


@pytest.mark.parametrize(("ratio", "demanded"), [(0.0, ("decisions",)), (0.5, ("decisions", "other_than_run"))])
def test_a_policy_that_may_skip_must_be_seen_to(ratio: float, demanded: tuple[str, ...]) -> None:
    rule, subject = by_id("graph.policy"), subject_of(policy="static-depth", ratio=ratio)
    assert rule.demanded(subject) == demanded
    outcome = run_property(rule, subject, examples=3, seed=1)
    assert (outcome.status, tuple(outcome.counters)) == ("passed", demanded)


def test_a_policy_that_only_ever_runs_and_declares_more_is_vacuous() -> None:
    subject = subject_of(policy="static-depth", ratio=0.0)
    policy = subject.served_policy()
    silent = SimpleNamespace(
        **{name: getattr(policy, name) for name in ("begin", "route", "project")},
        capabilities=replace(policy.capabilities, actions=frozenset({Action.RUN, Action.PROJECT_ONLY})),
    )
    outcome = run_property(by_id("graph.policy"), replace(subject, make_policy=lambda *_: silent), examples=3, seed=1)
    assert (outcome.status, outcome.detail) == ("vacuous", "never seen: other_than_run")


@pytest.mark.parametrize("rule", GRAPH, ids=lambda rule: rule.id)
def test_cases_travel_as_text(rule: Property) -> None:
    for case in draw_cases(rule, subject_of(), 5, seed=0):
        assert decode(encode(case)) == case


def test_every_property_is_a_killer_and_faults_name_properties_of_the_level() -> None:
    ids = {rule.id for rule in GRAPH}
    assert {fault.killer for fault in GRAPH_FAULTS} == ids
    assert all(fault.quiet and set(fault.quiet) <= ids - {fault.killer} for fault in GRAPH_FAULTS)


class Broken(ReferenceReplays):
    """Replays that differ from the code by one defect."""

    def __init__(self, whole: ReferenceReplays, defect: str) -> None:
        super().__init__(whole._session, whole._policy, whole._model)
        self._defect, self._fill = defect, "zero"
        self._rows = 0
        self._tape: TapePlan | None = None
        self._evidence = torch.zeros(3, 4, dtype=torch.uint8)

    def decode(self, plan: StepPlan, tape: TapePlan | None, **how: Any) -> StepResult:
        if self._defect == "captures":
            self.code_runs += 1
        if how.get("way") == "twin":
            result = super().decode(plan, tape, **how)
            return _writes_elsewhere(self, result) if self._defect == "writes elsewhere in the code" else result
        if self._defect == "one variant":
            how["variant"] = "routed"
            tape = tape or TapePlan(actions=((int(Action.RUN),) * plan.rows,) * 3)
        if self._defect == "last routes":
            how["variant"], tape = "routed", tape or self._tape
            self._tape = tape
        if self._defect == "all run" and tape is not None:
            tape = TapePlan(actions=((int(Action.RUN),) * plan.rows,) * 3, eighths=((8,) * plan.rows,) * 3)
        result = super().decode(plan, tape, **how)
        return DEFECTS.get(self._defect, lambda replays, result: result)(self, result)

    def decode_all(self, plans: Any, dense: Any) -> tuple[Decided, ...]:
        found = super().decode_all(plans, [frozenset()] * len(plans) if self._defect == "dense routed" else dense)
        if self._defect == "read late":
            return tuple(replace(each, work=found[-1].work) for each in found)
        return found

    def fill_padding(self, fill: Fill) -> None:
        self._fill = fill

    @contextmanager
    def no_waits(self) -> Iterator[None]:
        if self._defect == "waits":
            raise RuntimeError("called a synchronizing CUDA operation")
        yield


def _padding_leaks(replays: Any, result: StepResult) -> StepResult:
    return result if replays._fill == "zero" else replace(result, logits=result.logits + 1e-3)


def _padding_counted(replays: Any, result: StepResult) -> StepResult:
    return replace(result, work=tuple(replace(each, kv_rows=each.kv_rows + 1) for each in result.work))


def _shared(replays: Any, result: StepResult) -> StepResult:
    shape = result.actions.shape
    replays._evidence[:, : shape[1]] = result.actions if shape[0] else 0
    return replace(result, actions=replays._evidence[: shape[0], : shape[1]]) if shape[0] else result


def _sizes_mix(replays: Any, result: StepResult) -> StepResult:
    """The first pass of another size than the one before it is wrong."""
    before, replays._rows = replays._rows, result.logits.shape[0]
    return result if before in (0, replays._rows) else replace(result, logits=result.logits + 1e-3)


def _writes_elsewhere(replays: Any, result: StepResult) -> StepResult:
    replays.kv[2][1][-1] = 1.0
    return result


def _reads_all(replays: Any, result: StepResult) -> StepResult:
    nans = sum(int(torch.isnan(part).sum()) for pair in replays.kv for part in pair)
    return replace(result, logits=result.logits + nans / 1024)


DEFECTS: dict[str, Callable[[Any, StepResult], StepResult]] = {
    "padding leaks": _padding_leaks,
    "padding counted": _padding_counted,
    "evidence shared": _shared,
    "sizes mix": _sizes_mix,
    "writes elsewhere": _writes_elsewhere,
    "writes elsewhere in the code": _writes_elsewhere,
    "reads all": _reads_all,
}
SEEN = (
    ("all run", "graph.replay", "replay_differs"),
    ("writes elsewhere", "graph.replay", "foreign_slot_written"),
    ("writes elsewhere in the code", "graph.replay", "foreign_slot_written"),
    ("all run", "graph.outputs", "routes_differ"),
    ("one variant", "graph.outputs", "routes_differ"),
    ("waits", "graph.still", "host_waits"),
    ("captures", "graph.still", "captured_anew"),
    ("padding leaks", "graph.padding", "padding_changes_result"),
    ("padding counted", "graph.padding", "padding_counted"),
    ("evidence shared", "graph.alternate", "evidence_overwritten"),
    ("sizes mix", "graph.alternate", "order_changes_result"),
    ("last routes", "graph.dense", "differs_from_stock"),
    ("dense routed", "graph.rows", "rows_differ"),
    ("read late", "graph.rows", "work_differs"),
    ("reads all", "graph.skipped", "skipped_context_read"),
)


@pytest.mark.parametrize(("defect", "rule", "reason"), SEEN)
def test_a_defect_is_seen(monkeypatch: pytest.MonkeyPatch, defect: str, rule: str, reason: str) -> None:
    original = ReferenceGraphs.open

    def opened(*arguments: Any, **keywords: Any) -> Broken:
        return Broken(original(*arguments, **keywords), defect)

    monkeypatch.setattr(ReferenceGraphs, "open", opened)
    outcome = run_property(by_id(rule), subject_of(), examples=24, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == reason, outcome


def test_a_runtime_without_graphs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceRuntime, "graphs", None)
    with pytest.raises(InputError, match=r"decode graphs \[runtime reference\]: got none"):
        graph_sizes(subject_of())


def test_raw_results_are_the_sessions_own() -> None:
    subject = subject_of()
    case = draw_cases(by_id("graph.replay"), subject, 1, seed=3)[0]
    size = case.schedule.layout.page_size
    session = ReferenceGraphs().open(subject.model, subject.served_policy(), size, forced=True)
    assert raw_decode(session, case, 0, "replay").actions.shape == (3, case.schedule.steps[0].rows)


SMALL_BOUNDARIES = (2**19, 2**20)


@contextmanager
def roomy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The reference with a pool whose far end is not far."""
    with monkeypatch.context() as patched:
        patched.setattr(far, "BOUNDARIES", SMALL_BOUNDARIES)
        capabilities = replace(ReferenceRuntime().capabilities, kv_bytes=2**30)
        patched.setattr(ReferenceRuntime, "capabilities", capabilities)
        yield


def _far_is_lost(replays: Any, plan: StepPlan, tape: TapePlan | None, **how: Any) -> StepResult:
    result: StepResult = ORIGINAL_DECODE(replays, plan, tape, **how)
    for tensor in (part for pair in replays.kv for part in pair):
        tensor[SMALL_BOUNDARIES[0] // tensor[0].nbytes :] = 0.0
    return result


ORIGINAL_DECODE = ReferenceReplays.decode


def test_far_slots_are_asked_for_where_a_pool_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_property(by_id("graph.far"), subject_of(), examples=1, seed=0).status == "unsupported"
    with roomy(monkeypatch):
        outcome = run_property(by_id("graph.far"), subject_of(), examples=12, seed=0)
        assert outcome.status == "passed", outcome
        monkeypatch.setattr(ReferenceReplays, "decode", _far_is_lost)
        lost = run_property(by_id("graph.far"), subject_of(), examples=12, seed=0)
    assert lost.violation is not None and lost.violation.reason == "far_slots_differ", lost
