"""LIFE-2: at every iteration each page of the pool stands in exactly one place."""

from __future__ import annotations

from collections import Counter

from properties.lifecycle.case import LifeCase, life_cases
from properties.lifecycle.engine import Account, History
from properties.lifecycle.play import play
from properties.lifecycle.seen import note
from properties.property import Property, Subject
from properties.violation import Violation

CLAUSE = "LIFE-2"
COUNTERS = ("retractions", "prefix_hits", "aborts", "slot_reuses", "held_pages", "tree_pages")


def check(subject: Subject, case: LifeCase) -> None:
    history = play(subject, case)
    note(subject, history, COUNTERS)
    for account in history.accounts:
        check_account(account)
        subject.seen["held_pages"] += sum(map(len, account.held.values()))
        subject.seen["tree_pages"] += len(account.tree)
    check_writes(history)
    last = history.accounts[-1]
    if last.held:
        name, pages = next(iter(last.held.items()))
        raise Violation(CLAUSE, "held_after_the_end", {"request": name, "pages": pages})


def check_account(account: Account) -> None:
    """Free, in the tree, or of one request; never the dummy page, never twice, never nowhere. One row of the request
    table is one request's."""
    places = Counter((*account.free, *account.tree, *(page for held in account.held.values() for page in held)))
    everything = set(range(1, account.total + 1))
    rows = Counter(account.rows.values())
    wrong: tuple[tuple[str, set[int]], ...] = (
        ("row_of_two_requests", {row for row, count in rows.items() if count > 1}),
        ("dummy_page", {page for page in places if page == 0}),
        ("in_two_places", {page for page, count in places.items() if count > 1}),
        ("unknown_page", places.keys() - everything - {0}),
        ("lost_page", everything - places.keys()),
    )
    for reason, numbers in wrong:
        if numbers:
            owners = [name for name, held in account.held.items() if min(numbers) in held]
            facts = {"iteration": account.iteration, "first": min(numbers), "count": len(numbers), "requests": owners}
            raise Violation(CLAUSE, reason, facts)


def check_writes(history: History) -> None:
    """No two rows of a pass write one slot, and none writes the dummy one."""
    for step, each in enumerate(history.passes):
        writers: dict[int, str] = {}
        for row in each.rows:
            if row.slot == 0 or row.slot in writers:
                facts = {"step": step, "slot": row.slot, "request": row.request, "other": writers.get(row.slot)}
                raise Violation(CLAUSE, "dummy_slot" if row.slot == 0 else "slot_written_twice", facts)
            writers[row.slot] = row.request


LIFE_SLOTS = Property(
    id="life.slots",
    clause=CLAUSE,
    title="each page is free, in the prefix tree or one request's at every iteration",
    cases=lambda subject: life_cases(subject, users=True),
    check=check,
    counters=COUNTERS,
    examples=24,
)
