"""KV-1 and KV-2: every row writes its own slot at every layer, and nothing else is written."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from properties.batch import bounds_of, schedules
from properties.bits import bits
from properties.case import ScheduleCase
from properties.contexts import context_slots
from properties.drive import Ran, run, stored
from properties.facts import place, rows_with
from properties.pool import Kv, changed_slots, fill_nan, fill_pattern, snapshot, touched
from properties.property import Property, Subject
from properties.runtime import Session
from properties.violation import Violation
from vskipper.action import Action


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    capabilities = subject.runtime.capabilities
    bounds = bounds_of(subject.model, capabilities)
    return schedules(replace(bounds, padding=2 if capabilities.padding else 0))


def check_complete(subject: Subject, case: ScheduleCase) -> None:
    """The slots a pass is to write hold NaN before it, and no bit of that NaN after it."""
    poison: list[Kv] = []

    def before(step: int, session: Session) -> None:
        slots = [row.slot for row in case.rows(step)]
        fill_nan(session.kv, slots)
        poison.append(stored(session.kv, slots))

    passes = run(subject, case, before=before)
    for step, (ran, old) in enumerate(zip(passes, poison, strict=True)):
        for layer, (new_pair, old_pair) in enumerate(zip(ran.kv, old, strict=True)):
            for part, new, was in zip("kv", new_pair, old_pair, strict=True):
                _check_written(subject, case, step, layer, part, new, was)
        _check_once(case, step, ran)
        subject.seen["entries"] += case.steps[step].rows * len(ran.kv)
        subject.seen["project_entries"] += rows_with(case, step, Action.PROJECT_ONLY)


def _check_written(
    subject: Subject, case: ScheduleCase, step: int, layer: int, part: str, new: Tensor, was: Tensor
) -> None:
    unwritten = (bits(new) == bits(was)).flatten(1)
    for row in torch.nonzero(unwritten.any(1) | ~torch.isfinite(new.float()).flatten(1).all(1)).flatten().tolist():
        facts = place(subject, case, step, row, layer) | {"part": part}
        if bool(unwritten[row].all()):
            raise Violation("KV-1", "missing_write", facts)
        if bool(unwritten[row].any()):
            raise Violation("KV-1", "partial_write", facts | {"unwritten": int(unwritten[row].sum())})
        raise Violation("KV-1", "not_finite", facts)


def _check_once(case: ScheduleCase, step: int, ran: Ran) -> None:
    expected = case.steps[step].rows
    for index, work in enumerate(ran.result.work):
        if work.kv_rows != expected:
            facts = {"step": step, "routed_layer": index, "got": work.kv_rows, "expected": expected}
            raise Violation("KV-1", "kv_rows_mismatch", facts)


def check_footprint(subject: Subject, case: ScheduleCase) -> None:
    """Bytes of the whole pool before and after each pass; what changed lies in the rows' slots or on page 0."""
    before: list[Kv] = []

    def take(step: int, session: Session) -> None:
        before[:] = [snapshot(session.kv)]

    def compare(step: int, session: Session) -> None:
        after = snapshot(session.kv)
        own = {row.slot for row in case.rows(step)}
        stray = touched(before[0], after, own | set(range(case.layout.page_size)))
        if stray is not None:
            facts: dict[str, object] = {"step": step, "layer": stray.layer, "part": stray.part, "slot": stray.slot}
            facts |= {"owner": owner(case, step, stray.slot), "first_byte": stray.byte, "expected": "unchanged"}
            raise Violation("KV-2", "foreign_slot_written", facts)
        changed = sum(len(changed_slots(old, new) & own) for old, new in zip(before[0], after, strict=True))
        subject.seen["owned_changed"] += changed
        subject.seen["guarded"] += (case.layout.slots - case.layout.page_size - len(own)) * len(after)

    run(subject, case, fill=lambda kv: fill_pattern(kv, case.seed), before=take, after=compare)


def owner(case: ScheduleCase, step: int, slot: int) -> str:
    """Whose slot it is up to pass `step`: the last request and position that had it, or nobody."""
    size = case.layout.page_size
    found = "nobody"
    for number in range(step + 1):
        for context in case.contexts:
            if context.step == number and slot in context_slots(context, size):
                found = f"{context.request}@{context_slots(context, size).index(slot)}"
        for row in case.rows(number):
            if row.slot == slot:
                found = f"{row.request}@{row.position}"
    return found


KV_COMPLETE = Property(
    id="kv.complete",
    clause="KV-1",
    title="every valid row writes K and V to its own slot at every layer, once",
    cases=cases,
    check=check_complete,
    counters=("entries", "project_entries"),
    examples=100,
)
KV_FOOTPRINT = Property(
    id="kv.footprint",
    clause="KV-2",
    title="a pass changes no byte of the pool but those of its own slots",
    cases=cases,
    check=check_footprint,
    counters=("owned_changed", "guarded"),
    examples=100,
)
