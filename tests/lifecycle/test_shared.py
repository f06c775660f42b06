"""The set of what requests may share, on histories made by hand."""

from __future__ import annotations

from properties.lifecycle.case import Rules
from properties.lifecycle.engine import History, Pass, Ran, Row
from properties.lifecycle.paths import paths
from properties.lifecycle.shared import entries, longest, namespace_of

PROMPT, OUTPUTS = (5, 6, 7), (8, 9)


def ran(decode: str) -> Ran:
    return Ran(
        name="a",
        prompt=PROMPT,
        outputs=OUTPUTS,
        plans=(("routed", decode),),
        filed_under=("k",),
        cached=0,
        retractions=0,
        finish="length",
    )


def history(decode: str, *, retracted: bool = False) -> History:
    """Two chunks of the prompt, then a decode step; or all of it again after a retraction."""
    pieces = [(0, 2), (2, 3), (3, 4)] + ([(0, 4)] if retracted else [])
    passes = tuple(
        Pass(iteration=at, rows=tuple(Row(request="a", position=p, slot=p + 1) for p in range(first, end)))
        for at, (first, end) in enumerate(pieces, start=1)
    )
    return History(passes=passes, requests={"a": ran(decode)}, accounts=(), retracted=((4, "a"),) if retracted else ())


def test_a_way_is_its_pieces_and_a_retraction_begins_another() -> None:
    (way,) = paths(history("routed", retracted=True)).values()
    assert [[(piece.first, piece.end) for piece in turn] for turn in way] == [[(0, 2), (2, 3), (3, 4)], [(0, 4)]]


def test_all_is_shared_where_both_modes_are_one() -> None:
    found = list(
        entries(history("routed"), Rules(by_token=True), 0, {"a": None}, overlap=False, fallen={"a": frozenset()})
    )
    own = [entry for entry in found if entry.own]
    assert longest((*PROMPT, 8, 1), own, page_size=1) == 4
    assert longest((*PROMPT, 8, 1), own, page_size=2) == 4
    assert longest(PROMPT, own, page_size=1) == 2
    assert longest((*PROMPT, 8, 1), [entry for entry in own if entry.certain], page_size=1) == 4


def test_tokens_of_a_second_mode_are_kept_apart() -> None:
    found = list(
        entries(history("dense"), Rules(by_token=True), 0, {"a": None}, overlap=False, fallen={"a": frozenset()})
    )
    assert longest((*PROMPT, 8, 1), [entry for entry in found if entry.own], page_size=1) == 3
    assert longest((*PROMPT, 8, 1), found, page_size=1) == 4


def test_what_two_modes_compute_after_a_retraction_is_nobody_elses() -> None:
    found = list(
        entries(
            history("dense", retracted=True),
            Rules(by_token=True),
            0,
            {"a": None},
            overlap=False,
            fallen={"a": frozenset()},
        )
    )
    assert {entry.own for entry in found if entry.at == 5} == {False}


def test_a_namespace_tells_user_mode_rules_and_private_requests_apart() -> None:
    shared, private = Rules(by_token=True), Rules()
    dense = Ran(
        name="a",
        prompt=(),
        outputs=(),
        plans=(("dense", "dense"),),
        filed_under=(),
        cached=0,
        retractions=0,
        finish=None,
    )
    spaces = [
        namespace_of(ran("routed"), shared, 0, None),
        namespace_of(ran("routed"), shared, 0, "u"),
        namespace_of(ran("routed"), Rules(by_token=True, weights=1), 0, None),
        namespace_of(ran("routed"), private, 0, None),
        namespace_of(ran("routed"), private, 1, None),
        namespace_of(dense, shared, 0, None),
    ]
    assert len(set(spaces)) == len(spaces)
    assert namespace_of(dense, private, 1, None) == spaces[-1]
