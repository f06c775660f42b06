"""A request's plan: what each mode gives, what a policy that lacks a phase gets, and what is counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from vskipper.policy import Phase, PolicyCapabilities
from vskipper.sglang.request import RequestMode, RequestPlan, choose_plan, new_state

DENSE, ROUTED = RequestMode.DENSE, RequestMode.ROUTED
IDS = [f"request-{number}" for number in range(400)]


def plan(mode: Any, request_id: str = "a", seed: int = 0, **capabilities: Any) -> tuple[RequestMode, RequestMode]:
    chosen = choose_plan(mode, PolicyCapabilities(**capabilities), request_id, seed)
    return chosen.prefill, chosen.decode


def test_dense_and_routed_mean_both_phases() -> None:
    assert plan("dense", tolerates_dense_prefix=True) == (DENSE, DENSE)
    assert plan("routed") == (ROUTED, ROUTED)


def test_by_request_draws_all_four_plans_evenly() -> None:
    drawn = Counter(plan("by-request", each, tolerates_dense_prefix=True) for each in IDS)
    assert len(drawn) == 4 and min(drawn.values()) > 60


def test_by_request_depends_on_id_and_seed_alone() -> None:
    first = [plan("by-request", each, 1, tolerates_dense_prefix=True) for each in IDS]
    assert first == [plan("by-request", each, 1, tolerates_dense_prefix=True) for each in IDS]
    assert first != [plan("by-request", each, 2, tolerates_dense_prefix=True) for each in IDS]


def test_no_promotion_where_the_policy_does_not_tolerate_a_dense_prefix() -> None:
    drawn = Counter(plan("by-request", each) for each in IDS)
    assert (DENSE, ROUTED) not in drawn and len(drawn) == 3


@pytest.mark.parametrize(
    ("phases", "tolerates", "expected"),
    [
        ({Phase.PREFILL}, False, (ROUTED, DENSE)),
        ({Phase.DECODE}, True, (DENSE, ROUTED)),
        ({Phase.DECODE}, False, (DENSE, DENSE)),
    ],
)
def test_a_phase_that_the_policy_does_not_serve_runs_dense(
    phases: set[Phase], tolerates: bool, expected: tuple[RequestMode, RequestMode]
) -> None:
    assert plan("routed", phases=frozenset(phases), tolerates_dense_prefix=tolerates) == expected


def test_a_row_s_mode_follows_its_position_and_a_failure_makes_it_dense() -> None:
    state = new_state(RequestPlan(prefill=DENSE, decode=ROUTED), "a", 3)
    assert [state.mode(position) for position in (0, 2, 3, 9)] == [DENSE, DENSE, ROUTED, ROUTED]
    state.failure = "broke"
    assert state.mode(3) == DENSE


def test_shares_are_counted_by_phase_and_a_promotion_once() -> None:
    state = new_state(RequestPlan(prefill=DENSE, decode=ROUTED), "a", 3)
    assert not state.promote()
    state.count(Phase.DECODE, pairs=4, skipped=1)
    assert state.promote() and not state.promote()
    assert state.summary() == {
        "prefill": "dense",
        "decode": "routed",
        "skipped_share": {"prefill": None, "decode": 0.25},
    }


def test_rows_that_no_graph_covered_count_as_not_skipped() -> None:
    state = new_state(RequestPlan(prefill=DENSE, decode=ROUTED), "a", 3)
    state.uncovered += 4
    assert state.summary()["skipped_share"] == {"prefill": None, "decode": 0.0} and not state.promote()
    state.count(Phase.DECODE, pairs=4, skipped=2)
    assert state.summary()["skipped_share"] == {"prefill": None, "decode": 0.25}


def test_a_fallen_row_stays_dense_and_its_neighbours_run_as_planned() -> None:
    state = new_state(RequestPlan(prefill=ROUTED, decode=ROUTED), "a", 3)
    assert not state.mixes and state.edges(0, 9) == [0, 3, 9]
    for position in (4, 5, 8):
        state.fall(position, for_good=False)
    assert [position for position in range(12) if state.mode(position) == DENSE] == [4, 5, 8]
    assert state.edges(0, 12) == [0, 3, 4, 6, 8, 9, 12] and state.edges(5, 6) == [5, 6]
    assert state.mixes and not state.plan.differs


def test_a_request_can_fall_for_good() -> None:
    state = new_state(RequestPlan(prefill=ROUTED, decode=ROUTED), "a", 3)
    state.fall(5, for_good=True)
    assert [state.mode(position) for position in (2, 4, 5, 6, 10**6)] == [ROUTED, ROUTED, DENSE, DENSE, DENSE]
    assert state.summary()["decode"] == "routed"
