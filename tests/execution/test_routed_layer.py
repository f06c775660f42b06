"""The executor where no property reaches: policies that decide the MLP after attention, and rows of dense requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance.runtimes.torch_runtime.session import TorchSession
from conformance.subjects import SubjectSpec, build_subject
from properties.compare import Envelope
from properties.property import Subject
from properties.registry import by_id
from properties.run import run_property
from properties.runtime import Mode, StepResult
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from vskipper.action import Action
from vskipper.policy import PolicyCapabilities, Route, RowBatch, Timing

LAYOUT = PoolLayout(page_size=16, pages=4)
PLAN = StepPlan(
    chunks=(
        Chunk(request="a", tokens=(5, 9, 2), start=0, pages=(1,), phase="prefill"),
        Chunk(request="b", tokens=(7, 3), start=0, pages=(2,), phase="prefill"),
    ),
    padding=1,
)
ROWS_OF_B = [3, 4]


class DecidesTwice:
    """Attention by the row's position, before it; the MLP by the sign of a value that attention has changed."""

    capabilities = PolicyCapabilities(actions=frozenset(Action), timing=Timing.MID_LAYER)

    def begin(self, batch: RowBatch) -> Tensor:
        return batch.positions % 2 == 0

    def route(self, layer: int, x: Tensor, state: Tensor) -> Route:
        return Route(actions=torch.where(state, int(Action.RUN), int(Action.SKIP_ATTN)).to(torch.uint8))

    def route_mlp(self, layer: int, y: Tensor, state: Tensor) -> Route:
        mlp = torch.where(y[:, 0] > 0, 2, 0)
        return Route(actions=(state.to(torch.uint8) | mlp).to(torch.uint8))


@pytest.fixture(scope="module", params=["torch", "triton"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return build_subject(SubjectSpec(runtime=request.param, model="tiny-llama"))


def step(subject: Subject, policy: Any, tape: TapePlan | None = None, mode: Mode = "routed") -> StepResult:
    return subject.runtime.open(subject.model, policy, LAYOUT, mode).step(PLAN, tape)


def test_a_policy_that_decides_after_attention_runs_what_it_decided(subject: Subject) -> None:
    decided = step(subject, DecidesTwice())
    codes = {int(code) for code in decided.actions.unique()}
    assert len(codes) > 2
    tape = TapePlan(actions=tuple(map(tuple, decided.actions.tolist())))
    zero = build_subject(SubjectSpec(runtime="torch", model="tiny-llama", policy="random-skip"))
    forced = step(subject, zero.make_policy(torch.float32), tape)
    torch.testing.assert_close(decided.logits, forced.logits, rtol=0, atol=0)
    assert decided.work == forced.work


class ClaimsAttention(DecidesTwice):
    """Says before attention that no row attends, and afterwards that every row runs."""

    def route(self, layer: int, x: Tensor, state: Tensor) -> Route:
        return Route(actions=torch.full_like(state, int(Action.PROJECT_ONLY), dtype=torch.uint8))

    def route_mlp(self, layer: int, y: Tensor, state: Tensor) -> Route:
        return Route(actions=torch.full_like(state, int(Action.RUN), dtype=torch.uint8))


def test_the_second_decision_cannot_bring_attention_back(subject: Subject) -> None:
    assert step(subject, ClaimsAttention()).actions.unique().tolist() == [int(Action.SKIP_ATTN)]


@pytest.mark.parametrize("property", ["model.outputs", "model.routes", "model.all_run_is_dense"])
def test_a_mid_layer_policy_holds_on_the_model(subject: Subject, property: str) -> None:
    own = replace(subject, make_policy=lambda *_: DecidesTwice(), policy_name=f"decides-twice-{subject.runtime.name}")
    outcome = run_property(by_id(property), own, examples=6, seed=0)
    assert outcome.status == "passed", outcome


@contextmanager
def dense_requests(monkeypatch: pytest.MonkeyPatch, rows: list[int]) -> Iterator[None]:
    """Within it every pass forces these rows to RUN."""
    original = TorchSession._open_pass

    def opened(self: TorchSession, *arguments: Any) -> Any:
        run = original(self, *arguments)
        mask = torch.zeros_like(run.valid)
        mask[rows] = True
        return replace(run, force_run=mask)

    with monkeypatch.context() as patch:
        patch.setattr(TorchSession, "_open_pass", opened)
        yield


def test_rows_of_a_dense_request_in_a_routed_pass_equal_the_dense_model(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = subject.make_policy(torch.float32)
    tape = TapePlan(actions=((0,) * 5,) * 3, eighths=((2,) * 5,) * 3)
    dense = step(subject, policy, mode="dense")
    with dense_requests(monkeypatch, ROWS_OF_B):
        mixed = step(subject, policy, tape)
    assert mixed.hidden is not None and dense.hidden is not None
    assert mixed.actions[:, ROWS_OF_B].unique().tolist() == [int(Action.RUN)]
    # products of fewer rows may sum in another order: no more than the envelope allows where R and T are equal
    slack = Envelope.of_layers(subject.model.config.num_hidden_layers).least(torch.float32)
    atol = slack * float(dense.hidden.abs().max())
    torch.testing.assert_close(mixed.hidden[:, ROWS_OF_B], dense.hidden[:, ROWS_OF_B], rtol=0, atol=atol)
    assert not torch.allclose(mixed.hidden[-1, :3], dense.hidden[-1, :3], atol=1e-2)
