"""Each way in which a page can stand in no place or in two is seen, and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from properties.lifecycle.engine import Account, History, Pass, Row
from properties.lifecycle.life_slots import check_account, check_writes
from properties.violation import Violation


def account(free: tuple[int, ...], tree: tuple[int, ...], **held: tuple[int, ...]) -> Account:
    return Account(iteration=3, total=4, free=free, tree=tree, held=held)


def test_every_page_once_holds() -> None:
    check_account(account((1,), (3,), a=(2,), b=(4,)))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (account((0, 1), (3,), a=(2, 4)), "dummy_page"),
        (account((1, 1), (3,), a=(2, 4)), "in_two_places"),
        (account((1, 2), (3,), a=(2, 4)), "in_two_places"),
        (account((1,), (3,), a=(2, 4), b=(4,)), "in_two_places"),
        (account((1,), (3, 3), a=(2, 4)), "in_two_places"),
        (replace(account((1,), (3,), a=(2,), b=(4,)), rows={"a": 2, "b": 2}), "row_of_two_requests"),
        (account((1, 5), (3,), a=(2, 4)), "unknown_page"),
        (account((1,), (3,), a=(2,)), "lost_page"),
    ],
)
def test_each_fault_of_an_account_is_named(wrong: Account, reason: str) -> None:
    with pytest.raises(Violation) as found:
        check_account(wrong)
    assert (found.value.clause, found.value.reason) == ("LIFE-2", reason)


@pytest.mark.parametrize(("slots", "reason"), [((5, 5), "slot_written_twice"), ((5, 0), "dummy_slot")])
def test_a_pass_writes_each_slot_once_and_never_the_dummy(slots: tuple[int, int], reason: str) -> None:
    rows = tuple(Row(request=name, position=0, slot=slot) for name, slot in zip("ab", slots, strict=True))
    with pytest.raises(Violation) as found:
        check_writes(History(passes=(Pass(iteration=1, rows=rows),), requests={}, accounts=()))
    assert found.value.reason == reason
