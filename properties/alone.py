"""One request of a schedule without the others: what it would have met had it been the only one (MAP-2, MAP-3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from properties.case import ScheduleCase, reorder
from properties.contexts import context_slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """case: the passes in which the request, or one whose prefix it shares, took part. steps: old numbers."""

    request: str
    case: ScheduleCase
    steps: tuple[int, ...]

    def chunk(self, step: int) -> int | None:
        """Where the request's chunk stands in pass `step` of the small case; None when it has none."""
        names = [chunk.request for chunk in self.case.steps[step].chunks]
        return names.index(self.request) if self.request in names else None


def alone(case: ScheduleCase, request: str) -> Alone:
    """The schedule of one request, with those that wrote the prefix it shares, up to its last pass."""
    keep = {request, *_writers(case, request)}
    last = max(i for i, step in enumerate(case.steps) if any(c.request == request for c in step.chunks))
    steps, tapes, numbers = [], [], []
    for number in range(last + 1):
        plan, tape = case.steps[number], case.tapes[number]
        order = tuple(i for i, chunk in enumerate(plan.chunks) if chunk.request in keep)
        if order:
            small, routes, _ = reorder(plan, tape, order)
            steps.append(replace(small, padding=0, fill="zero"))
            tapes.append(routes)
            numbers.append(number)
    contexts = tuple(
        replace(context, step=next(i for i, number in enumerate(numbers) if number >= context.step))
        for context in case.contexts
        if context.request in keep and context.step <= last
    )
    small_case = replace(case, steps=tuple(steps), tapes=tuple(tapes), contexts=contexts)
    return Alone(request=request, case=small_case, steps=tuple(numbers))


def _writers(case: ScheduleCase, request: str) -> set[str]:
    """Every request that wrote a slot which `request` reads and did not write itself."""
    size = case.layout.page_size
    owner: dict[int, str] = {}
    found: set[str] = set()
    for number, step in enumerate(case.steps):
        for context in case.contexts:
            if context.step == number:
                owner.update(dict.fromkeys(context_slots(context, size), context.request))
        for chunk in step.chunks:
            if chunk.request == request:
                found |= {owner[slot] for slot in chunk.context_slots(chunk.start, size)}
        for chunk in step.chunks:
            owner.update(dict.fromkeys(chunk.own_slots(size), chunk.request))
    found.discard(request)
    return found.union(*(_writers(case, other) for other in found))
