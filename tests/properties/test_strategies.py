"""What the strategies draw: plans that can be run, and among them the awkward ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.subjects import SubjectSpec, build_subject
from properties.alone import alone
from properties.batch import Bounds, schedules
from properties.case import ScheduleCase, chunk_rows, reorder
from properties.contexts import context_slots
from properties.layout import ARRANGEMENTS, Pages, Placement
from properties.registry import by_id
from properties.run import draw_cases
from properties.tape import PATTERNS, constant, eighths_of, show, tapes
from reference.plan import TapePlan
from tests.properties.tiny_subject import subject_of

BOUNDS = Bounds(vocab=128, routed=3, padding=2, steps=5, decodes=3)
ONCE = settings(max_examples=150, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@ONCE
@given(schedules(BOUNDS))
def test_no_row_writes_or_reads_what_is_not_its_own(case: ScheduleCase) -> None:
    size = case.layout.page_size
    owner: dict[int, tuple[str, int]] = {}
    for number in range(len(case.steps)):
        for context in case.contexts:
            if context.step == number:
                slots = context_slots(context, size)
                owner |= {slot: (context.request, position) for position, slot in enumerate(slots)}
        rows = case.rows(number)
        owner |= {row.slot: (row.request, row.position) for row in rows}
        for row in rows:
            # the whole context is there, position by position, whoever computed it
            assert [owner[slot][1] for slot in row.context] == list(range(row.position + 1))
            assert min(row.context) >= size


@ONCE
@given(schedules(BOUNDS))
def test_plans_stay_within_their_bounds(case: ScheduleCase) -> None:
    assert 1 <= len(case.steps) == len(case.tapes) <= BOUNDS.steps
    for step, tape in zip(case.steps, case.tapes, strict=True):
        assert 1 <= step.rows <= BOUNDS.requests[1] * BOUNDS.chunk
        assert all(len(line) == step.rows for line in tape.actions) and len(tape.actions) == BOUNDS.routed
        assert all(0 <= token < BOUNDS.vocab for chunk in step.chunks for token in chunk.tokens)


@ONCE
@given(schedules(replace(BOUNDS, requests=(2, 3))))
def test_a_request_alone_keeps_its_rows_and_its_context(case: ScheduleCase) -> None:
    for request in case.requests:
        single = alone(case, request)
        kept = [
            (single.steps[number], row.position, row.slot)
            for number in range(len(single.case.steps))
            for row in single.case.rows(number)
            if row.request == request
        ]
        full = [(n, r.position, r.slot) for n in range(len(case.steps)) for r in case.rows(n) if r.request == request]
        assert kept == full
        for number, old in enumerate(single.steps):
            wide, narrow = case.rows(old), single.case.rows(number)
            for index, row in enumerate(narrow):
                place = next(i for i, other in enumerate(wide) if other == row)
                lines = zip(single.case.tapes[number].actions, case.tapes[old].actions, strict=True)
                assert all(small[index] == large[place] for small, large in lines)


def test_the_awkward_schedules_are_drawn() -> None:
    seen: Counter[str] = Counter()
    for case in draw_cases(by_id("kv.complete"), subject_of(), 200, 0) + draw_cases(
        by_id("map.fresh"), subject_of(), 100, 0
    ):
        entered = {context.request for context in case.contexts}
        for number, step in enumerate(case.steps):
            phases = {chunk.phase for chunk in step.chunks}
            seen["mixed"] += len(phases) == 2
            seen["ragged"] += len({len(chunk.tokens) for chunk in step.chunks}) > 1
            seen[f"padding {step.fill}"] += step.padding > 0
            for chunk in step.chunks:
                last = chunk.start + len(chunk.tokens)
                seen["chunked prefill"] += chunk.phase == "prefill" and chunk.start > 0
                seen["non-monotonic pages"] += list(chunk.pages) != sorted(chunk.pages)
                seen["shared prefix"] += (
                    number > 0
                    and chunk.start > 0
                    and _first(case, number, chunk.request)
                    and (chunk.request not in entered)
                )
                for edge in (15, 16, 17, 63, 64, 65):
                    seen[f"length {edge}"] += last == edge
            seen["high slot"] += any(row.slot > 255 for row in case.rows(number))
        seen[f"page size {case.layout.page_size}"] += 1
    expected = [
        "mixed", "ragged", "chunked prefill", "non-monotonic pages", "shared prefix", "high slot",
        *(f"padding {fill}" for fill in ("nan", "inf", "old")),
        *(f"length {edge}" for edge in (15, 16, 17, 63, 64, 65)),
        *(f"page size {size}" for size in (1, 16, 64)),
    ]  # fmt: skip
    assert not [name for name in expected if seen[name] < 3], seen


def _first(case: ScheduleCase, number: int, request: str) -> bool:
    return not any(chunk.request == request for step in case.steps[:number] for chunk in step.chunks)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_pages_are_handed_out_once_and_again_when_freed(arrangement: str, page_size: int) -> None:
    pages = Pages(Placement(page_size=page_size, arrangement=arrangement, spare=2, seed=3), 9)  # type: ignore[arg-type]
    first, second = pages.take(4), pages.take(3)
    assert not set(first) & set(second) and 0 not in first + second
    assert max(first + second) < pages.pages
    pages.release(first)
    assert set(pages.take(4)) & set(first)
    with pytest.raises(ValueError, match="pages: got 99"):
        pages.take(99)


def test_a_shared_page_is_free_only_when_nobody_holds_it() -> None:
    pages = Pages(Placement(page_size=1, spare=1), 2)
    (page,) = pages.take(1)
    pages.hold((page,))
    pages.release((page,))
    assert page not in pages.take(2)
    pages.release((page,))
    assert pages.take(1) == (page,)


def test_high_pages_lie_at_the_end_of_a_larger_pool() -> None:
    pages = Pages(Placement(page_size=16, arrangement="high", spare=1), 3)
    assert pages.take(3) == tuple(range(pages.pages - 3, pages.pages)) and pages.pages * 16 > 256


@ONCE
@given(st.data())
def test_tapes_have_weights_that_fit_their_actions(data: st.DataObject) -> None:
    tape = data.draw(tapes(3, 5, {0, 1, 2, 3}))
    for line, weights in zip(tape.actions, tape.eighths or ((None,) * 5,) * 3, strict=True):
        for action, weight in zip(line, weights, strict=True):
            allowed = {3: range(5, 9), 0: range(0, 5)}.get(action, (8,))
            assert weight is None or weight in allowed


def test_weights_differ_between_neighbours_unless_spread_is_zero() -> None:
    lines = ((3, 3, 0, 0),)
    assert eighths_of(lines, 0) == ((8, 8, 0, 0),)
    spread = eighths_of(lines, 1)[0]
    assert spread[0] != spread[1] and spread[2] != spread[3]


def test_every_pattern_of_tapes_occurs() -> None:
    drawn = [tape.actions for case in draw_cases(by_id("sem.outputs"), subject_of(), 150, 1) for tape in case.tapes]
    wide = [lines for lines in drawn if len(lines[0]) >= 3]
    assert len(PATTERNS) == 5
    assert any(len({action for line in lines for action in line}) == 1 for lines in wide)
    assert any(line[0] == line[2] != line[1] for lines in wide for line in lines)
    assert any(sorted(Counter(line).values()) == [1, len(line) - 1] for lines in wide for line in lines)
    assert any(len({action for line in lines for action in line}) == 4 for lines in wide)


def test_only_allowed_actions_are_drawn() -> None:
    allowed = frozenset({0, 3})
    strategy = schedules(replace(BOUNDS, actions=allowed))

    @ONCE
    @given(strategy)
    def check(case: ScheduleCase) -> None:
        assert {action for tape in case.tapes for line in tape.actions for action in line} <= allowed

    check()


def test_a_tape_is_shown_by_layers_and_letters() -> None:
    assert show(TapePlan(actions=((3, 0, 2), (1, 3, 3))), (2, 3)) == "L2:RPA L3:MRR"
    assert show(constant(1, 2, 3)) == "L0:RR"


def test_reordering_moves_the_tape_with_the_rows() -> None:
    case = next(c for c in draw_cases(by_id("map.fresh"), subject_of(), 40, 0) if len(c.steps[0].chunks) > 1)
    plan, tape, moved = reorder(case.steps[0], case.tapes[0], (1, 0))
    rows = chunk_rows(case.steps[0])
    assert moved == rows[1] + rows[0]
    assert tape.actions[0] == tuple(case.tapes[0].actions[0][row] for row in moved)
    assert [chunk.request for chunk in plan.chunks] == [case.steps[0].chunks[i].request for i in (1, 0)]


def test_scaled_pools_are_of_a_dtype_that_halves_what_it_holds() -> None:
    half = build_subject(SubjectSpec(runtime="torch", model="tiny-llama", dtype="float16"))
    cases: tuple[ScheduleCase, ...] = draw_cases(by_id("kv.scales"), half, 20, seed=0)
    assert {case.layout.kv_dtype for case in cases} == {"bfloat16"}


def test_where_a_runtime_has_no_such_pool_scales_are_not_asked_for() -> None:
    half = build_subject(SubjectSpec(runtime="torch", model="tiny-llama", dtype="float16"))
    narrow: Any = SimpleNamespace(capabilities=replace(half.runtime.capabilities, kv_dtypes=(None, "float8_e4m3fn")))
    assert by_id("kv.scales").unsupported(replace(half, runtime=narrow)) == "a wide dtype of K and V"
