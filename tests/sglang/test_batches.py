"""Rows of a batch of requests: whose, in which phase and mode; and what a policy's error does to which request."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.policy import Phase
from vskipper.sglang.batches import BatchPass, PassEvidence
from vskipper.sglang.passes import PassPlan, published
from vskipper.sglang.request import RequestMode, RequestPlan, RequestState, new_state
from vskipper.sglang.seams import prefill_runner
from vskipper.sglang.stretch import Stretch, stretches

DENSE, ROUTED = RequestMode.DENSE, RequestMode.ROUTED


def state(request_id: str, prompt: int, prefill: RequestMode = ROUTED, decode: RequestMode = ROUTED) -> RequestState:
    return new_state(RequestPlan(prefill=prefill, decode=decode), request_id, prompt)


def extend(prefixes: list[int], rows: list[int]) -> Any:
    mode = SimpleNamespace(is_decode=lambda: False)
    return SimpleNamespace(forward_mode=mode, extend_prefix_lens_cpu=prefixes, extend_seq_lens_cpu=rows)


def decode(lengths: list[int], known: bool = True) -> Any:
    mode, tensor = SimpleNamespace(is_decode=lambda: True), torch.tensor(lengths)
    return SimpleNamespace(forward_mode=mode, seq_lens=tensor, seq_lens_cpu=tensor if known else None)


def no_failure(number: int, error: PolicyError) -> None:
    raise AssertionError(f"request {number} failed: {error}")


def planned(states: list[RequestState], batch: Any, rows: int) -> PassPlan | None:
    return BatchPass(states, no_failure, print).plan(torch.arange(rows), torch.arange(rows) + 10, batch)


def test_rows_of_a_recomputed_request_run_in_the_mode_of_their_position() -> None:
    plan = planned([state("a", 3, DENSE, ROUTED), state("b", 2, ROUTED, DENSE)], extend([1, 0], [4, 4]), 8)
    assert plan is not None and plan.force_run is not None
    assert plan.force_run.tolist() == [True, True, False, False, False, False, True, True]
    assert plan.rows.phases.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    keys = plan.rows.request_keys.tolist()
    assert len(set(keys[:4])) == 1 and len(set(keys)) == 2
    assert plan.rows.positions.tolist() == list(range(10, 18)) and plan.rows.token_ids.tolist() == list(range(8))


@pytest.mark.parametrize("known", [True, False])
def test_a_decode_row_stands_at_the_last_position(known: bool) -> None:
    plan = planned([state("a", 3), state("b", 9)], decode([4, 9], known), 2)
    assert plan is not None and plan.rows.phases.tolist() == [int(Phase.DECODE), int(Phase.PREFILL)]


def test_a_batch_of_dense_rows_is_no_routed_pass() -> None:
    assert planned([state("a", 3, DENSE, ROUTED)], extend([0], [3]), 3) is None
    assert planned([], extend([], []), 0) is None


def test_a_pass_is_routed_where_any_row_is_and_asking_plans_nothing() -> None:
    mixed = [state("a", 3, DENSE, ROUTED), state("b", 4, DENSE, DENSE)]
    source = BatchPass(mixed, no_failure, print)
    assert [source.is_routed(extend([0, 0], [rows, 2])) for rows in (2, 3, 4)] == [False, False, True]
    mixed[0].failure = "raised"
    assert not source.is_routed(extend([0, 0], [4, 2])) and source._given is None


def test_a_prefill_graph_is_left_to_dense_passes() -> None:
    def can_run(runner: Any, forward_batch: Any) -> bool:
        return True

    mixed, dense = (BatchPass([state("a", 3, mode, ROUTED)], no_failure, print) for mode in (ROUTED, DENSE))
    answers = []
    for source in (None, dense, mixed):
        with published(source):
            answers.append(prefill_runner._declined(can_run, None, extend([0], [3])))
    assert answers == [True, True, False]


@pytest.mark.parametrize(
    ("first", "count", "parts"),
    [(0, 2, [(0, 2)]), (1, 2, [(1, 2)]), (1, 4, [(1, 2), (3, 2)]), (3, 2, [(3, 2)]), (7, 1, [(7, 1)]), (2, 0, [])],
)
def test_rows_of_the_prompt_and_those_after_it_are_apart(first: int, count: int, parts: list[tuple[int, int]]) -> None:
    found = stretches([state("a", 3)], [(first, count)])
    assert [(each.first, each.count) for each in found] == parts
    assert [each.phase for each in found] == [Phase.PREFILL if start < 3 else Phase.DECODE for start, _ in parts]


def test_rows_that_do_not_add_up_are_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"4 rows.* 5"):
        planned([state("a", 9)], extend([0], [4]), 5)
    with pytest.raises(RuntimeError, match=r"1 requests.* 2"):
        planned([state("a", 9)], extend([0, 0], [4, 1]), 5)


def test_what_ran_is_counted_by_phase_and_dense_rows_are_not() -> None:
    a, b = state("a", 1), state("b", 5, DENSE, DENSE)
    ran = (
        Stretch(state=a, first=0, count=1, dense=False),
        Stretch(state=a, first=1, count=2, dense=False),
        Stretch(state=b, first=0, count=1, dense=True),
    )
    actions = torch.tensor([[Action.PROJECT_ONLY, Action.RUN, Action.RUN, Action.RUN]] * 2, dtype=torch.uint8)
    PassEvidence(stretches=ran, actions=actions, counts=torch.zeros(2, 4)).count()
    assert a.summary()["skipped_share"] == {"prefill": 1.0, "decode": 0.0}
    assert b.summary()["skipped_share"] == {"prefill": None, "decode": None}


class Engine:
    """Runs a plan; fails where the policy decides for one of `guilty`, or for more requests than `most` at once."""

    def __init__(self, states: list[RequestState], guilty: set[int], most: int = 9) -> None:
        self.states, self.guilty, self.most = states, guilty, most
        self.failed: list[int] = []
        self.ran: list[set[int]] = []
        self.source = BatchPass(states, lambda number, error: self.failed.append(number), print)

    def attempt(self, plan: PassPlan) -> Tensor:
        forced = plan.force_run.tolist() if plan.force_run is not None else [False] * len(self.states)
        decided = {number for number, dense in enumerate(forced) if not dense}
        self.ran.append(decided)
        if decided & self.guilty or len(decided) > self.most:
            raise PolicyError("raised", policy="p", hook="route", location="p.py:1", got="x", expected="a result")
        return torch.zeros(1)

    def run(self) -> Tensor | None:
        count = len(self.states)
        plan = self.source.plan(torch.arange(count), torch.arange(count), extend([0] * count, [1] * count))
        assert plan is not None
        try:
            return self.attempt(plan)
        except PolicyError as error:
            return self.source.recover(self.attempt, error)


def three() -> list[RequestState]:
    return [state("a", 9), state("b", 9, DENSE, DENSE), state("c", 9), state("d", 9)]


def test_only_the_guilty_request_fails_and_the_rest_run_together() -> None:
    engine = Engine(three(), {2})
    assert engine.run() is not None
    assert engine.failed == [2] and engine.ran[-1] == {0, 3}


def test_where_all_are_guilty_all_fail_and_the_pass_runs_dense() -> None:
    engine = Engine(three(), {0, 2, 3})
    assert engine.run() is None and engine.failed == [0, 2, 3]


@pytest.mark.parametrize(("guilty", "failed"), [(set[int](), [0, 2, 3]), ({0}, [0, 2, 3])])
def test_where_no_request_alone_is_guilty_all_that_ran_together_fail(guilty: set[int], failed: list[int]) -> None:
    engine = Engine(three(), guilty, most=1)
    assert engine.run() is None and engine.failed == failed
