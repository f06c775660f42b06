"""MAP-2: over many passes, with requests that move, leave and give slots to others, each sees only its own memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis.strategies import SearchStrategy

from properties.alone import alone
from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase, chunk_rows
from properties.contexts import context_slots
from properties.drive import run
from properties.oracle import oracle_of
from properties.property import Property, Subject
from properties.views import first_outside, view_of_run, views_of_oracle
from properties.violation import Violation


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    bounds = bounds_of(subject.model, subject.runtime.capabilities)
    return schedules(replace(bounds, requests=(2, 3), chunk=2, chunks=1, decodes=2, steps=4, latest_arrival=2))


def check(subject: Subject, case: ScheduleCase) -> None:
    passes = run(subject, case)
    singles = {request: alone(case, request) for request in case.requests}
    answers = {request: oracle_of(subject).answer(single.case) for request, single in singles.items()}
    for step, ran in enumerate(passes):
        for chunk, rows in enumerate(chunk_rows(case.steps[step])):
            request = case.steps[step].chunks[chunk].request
            single, answer = singles[request], answers[request]
            number = single.steps.index(step)
            place = single.chunk(number)
            if place is None:
                raise ValueError(f"{request} has no chunk in pass {number} of its own schedule")
            own_rows = chunk_rows(single.case.steps[number])[place]
            got = view_of_run(ran, case.layout, subject.model.dtype, chunk, rows)
            found = first_outside(got, *views_of_oracle(answer, number, place, own_rows))
            if found is not None:
                reason = "stale_map" if step else "wrong_first_pass"
                facts = {
                    "step": step,
                    "request": request,
                    "row": rows[0],
                    "position": case.rows(step)[rows[0]].position,
                }
                raise Violation("MAP-2", reason, facts | found)
    _count(subject, case)


def _count(subject: Subject, case: ScheduleCase) -> None:
    """moved: passes in which a request stands at other rows than before. left: in which one is gone. reused: in which
    a slot has another owner."""
    owner: dict[int, str] = {}
    size = case.layout.page_size
    before: dict[str, int] = {}
    for step, plan in enumerate(case.steps):
        places = {chunk.request: rows[0] for chunk, rows in zip(plan.chunks, chunk_rows(plan), strict=True)}
        subject.seen["moved"] += any(places.get(name, row) != row for name, row in before.items())
        subject.seen["left"] += any(name not in places for name in before)
        entering = {s: c.request for c in case.contexts if c.step == step for s in context_slots(c, size)}
        written = entering | {row.slot: row.request for row in case.rows(step)}
        subject.seen["reused"] += any(owner.get(slot, name) != name for slot, name in written.items())
        owner |= written
        before = places
    subject.seen["passes"] += len(case.steps)


MAP_FRESH = Property(
    id="map.fresh",
    clause="MAP-2",
    title="requests that move, leave and reuse slots give what each gives alone",
    cases=cases,
    check=check,
    counters=("passes", "moved", "left", "reused"),
    compares="margin",
    examples=60,
)
