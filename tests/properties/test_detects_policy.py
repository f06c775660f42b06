"""Positive controls of POL-1, POL-2 and the gate: six broken policies and more, each seen for its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance.subjects import SubjectSpec, build_subject
from properties.core.policy_cases import rows_cases
from properties.registry import by_id
from properties.run import run_property
from tests.properties.tiny_subject import subject_of
from vskipper.action import Action
from vskipper.policy import Phase, PolicyCapabilities, Route, RowBatch, Timing


class Spoilt:
    """FlexiDepth with hooks of its own; a subclass breaks one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> PolicyCapabilities:
        declared: PolicyCapabilities = self.inner.capabilities
        return declared

    def begin(self, batch: RowBatch) -> Any:
        return batch

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = self.inner.route(layer, x, None)
        return route

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        projected: Tensor = self.inner.project(layer, y, None)
        return projected

    def swiglu(self, layer: int) -> Any:
        return self.inner.swiglu(layer)


def _both(condition: Tensor) -> Tensor:
    return torch.where(condition, int(Action.RUN), int(Action.PROJECT_ONLY)).to(torch.uint8)


class Undeclared(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=torch.full_like(route.actions, int(Action.SKIP_ATTN)))


class WrongDtype(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=route.actions.long())


class WrongWeights(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        assert route.weights is not None
        return replace(route, weights=route.weights[:, None])


class WrongProjection(Spoilt):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return super().project(layer, y, state)[:, :-1]


class NoNumber(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        assert route.weights is not None
        return replace(route, weights=route.weights * torch.nan)


class WritesInput(Spoilt):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        projected = super().project(layer, y, state)
        y.zero_()
        return projected


class ChangesAttention(Spoilt):
    @property
    def capabilities(self) -> PolicyCapabilities:
        return replace(super().capabilities, timing=Timing.MID_LAYER)

    def route_mlp(self, layer: int, y: Tensor, state: Any) -> Route:
        route = self.route(layer, y, state)
        return replace(route, actions=3 - route.actions)


class RaisesInDecode(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        if (state.phases == Phase.DECODE).any():
            raise ValueError("no decode rows")
        return super().route(layer, x, state)


class OtherProjection(Spoilt):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return 1.001 * super().project(layer, y, state)


class Raises(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        raise RuntimeError("no route")


class Alternates(Spoilt):
    calls = 0

    def begin(self, batch: RowBatch) -> Any:
        self.calls += 1
        return batch

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=_both(torch.full(x.shape[:1], self.calls % 3 == 0)))


class CountsPasses(Spoilt):
    calls = 0

    def begin(self, batch: RowBatch) -> Any:
        self.calls += 1
        return batch


class ReadsBack(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        if x[0, 0].item() > 1e9:
            raise AssertionError
        return super().route(layer, x, state)


class Neighbours(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        score = torch.nan_to_num(x[:, 0])
        return replace(super().route(layer, x, state), actions=_both(score >= score.max()))


class PlaceInChunk(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return replace(super().route(layer, x, state), actions=_both(torch.arange(len(x)) % 2 == 0))


class ByRequest(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return replace(super().route(layer, x, state), actions=_both(state.request_keys % 2 == 0))


class ByPhase(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return replace(super().route(layer, x, state), actions=_both(state.phases == 1))


class NotStrict(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        assert route.weights is not None
        return replace(route, actions=_both(route.weights >= 0.5))


class Inverted(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=3 - route.actions)


class WeightOff(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        assert route.weights is not None
        return replace(route, weights=route.weights * 1.0001)


CASES = [
    ("policy.declared", Undeclared, "undeclared_action"),
    ("policy.declared", WrongDtype, "wrong_actions"),
    ("policy.declared", WrongWeights, "wrong_weights"),
    ("policy.declared", NoNumber, "wrong_weights"),
    ("policy.declared", WritesInput, "input_written"),
    ("policy.declared", ChangesAttention, "attention_bit_changed"),
    ("policy.declared", WrongProjection, "wrong_result"),
    ("policy.declared", OtherProjection, "swiglu_differs"),
    ("policy.declared", Raises, "hook_raised"),
    ("policy.deterministic", Alternates, "not_deterministic"),
    ("policy.on_device", CountsPasses, "python_state_changes"),
    ("policy.on_device", ReadsBack, "host_synchronisation"),
    ("policy.batch_invariant", Neighbours, "depends_on_batch"),
    ("policy.chunk_invariant", PlaceInChunk, "depends_on_chunk"),
    ("policy.prefix_determined", ByRequest, "not_prefix_determined"),
    ("policy.prefix_determined", ByPhase, "not_prefix_determined"),
    ("gate.routes", Inverted, "route_differs"),
    ("gate.routes", WeightOff, "wrong_weight"),
    ("gate.threshold", NotStrict, "threshold_not_strict"),
]


@pytest.mark.parametrize(("property", "policy", "reason"), CASES, ids=[f"{c[0]}-{c[1].__name__}" for c in CASES])
def test_seen_for_its_reason(property: str, policy: Any, reason: str) -> None:
    outcome = run_property(by_id(property), subject_of(spoil=policy), examples=40, seed=0)
    assert outcome.violation is not None, outcome
    assert (outcome.status, outcome.violation.reason) == ("failed", reason), outcome.violation


def test_a_broken_hook_is_named_with_its_line() -> None:
    outcome = run_property(by_id("policy.declared"), subject_of(spoil=Undeclared), examples=10, seed=0)
    assert outcome.violation is not None
    facts = outcome.violation.facts
    assert (facts["policy"], facts["hook"]) == ("flexidepth", "route")
    assert "test_detects_policy.py:" in str(facts["location"])
    assert "SKIP_ATTN" in str(facts["got"]) and "PROJECT_ONLY" in str(facts["expected"])


@pytest.mark.parametrize("promise", ["deterministic", "batch_invariant", "prefix_determined"])
def test_what_a_hook_raises_is_named_by_every_promise(promise: str) -> None:
    outcome = run_property(by_id(f"policy.{promise}"), subject_of(spoil=RaisesInDecode), examples=40, seed=0)
    assert outcome.violation is not None
    facts = outcome.violation.facts
    assert (outcome.violation.reason, facts["policy"], facts["hook"]) == ("hook_raised", "flexidepth", "route")
    assert f"{__file__}:" in str(facts["location"])
    assert (facts["got"], facts["expected"]) == ("ValueError: no decode rows", "a result")


class DeclaresNothing(Spoilt):
    @property
    def capabilities(self) -> PolicyCapabilities:
        return replace(super().capabilities, deterministic=False, batch_invariant=False, prefix_determined=False)


@pytest.mark.parametrize("name", ["deterministic", "batch_invariant", "prefix_determined"])
def test_what_is_not_declared_is_unsupported_and_not_passed(name: str) -> None:
    outcome = run_property(by_id(f"policy.{name}"), subject_of(spoil=DeclaresNothing), examples=5, seed=0)
    assert (outcome.status, outcome.examples, outcome.detail) == ("unsupported", 0, f"not_declared_{name}")


def test_the_gate_of_another_policy_is_unsupported() -> None:
    outcome = run_property(by_id("gate.routes"), subject_of(spoil=Spoilt, name="pkg:Mine"), examples=5, seed=0)
    assert (outcome.status, outcome.detail) == ("unsupported", "flexidepth_router")


@pytest.mark.parametrize(("projector", "asked"), [("zero", False), ("checkpoint", True)])
def test_rows_in_company_are_asked_of_a_policy_with_a_projector(projector: str, asked: bool) -> None:
    spec = SubjectSpec(runtime="reference", model="tiny-llama", policy="random-skip", settings={"projector": projector})
    subject = build_subject(spec)
    rule = by_id("policy.declared")
    assert ("rows_in_company" in rule.demanded(subject)) == asked
    single = rows_cases(subject, 1).filter(lambda case: case.rows == 1)
    one = replace(rule, cases=lambda subject: single, counters=("decisions", "rows_in_company"))
    assert run_property(one, subject, examples=5, seed=0).status == ("vacuous" if asked else "passed")
    assert run_property(rule, subject, examples=5, seed=0).status == "passed"
