"""SEM-2: a row that skips attention adds exactly nothing from it, whatever its context holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase
from properties.codec import case_type
from properties.compare import differing
from properties.drive import Ran, run
from properties.facts import place
from properties.property import Property, Subject
from properties.runtime import Session
from properties.violation import Violation
from vskipper.action import ATTENTION_BIT, Action
from vskipper.policy import Route, RowBatch

Poison = Literal["other", "inf", "nan"]
POISONS: tuple[Poison, ...] = ("nan", "inf", "other")


class ZeroProjector:
    """The policy, with a projector that returns zeros."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities

    def begin(self, batch: RowBatch) -> Any:
        return self.inner.begin(batch)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route: Route = self.inner.route(layer, x, state)
        return route

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return torch.zeros_like(y)


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonCase:
    """One pass over contexts; at the routed layer of this index the contexts' K and V are poisoned before it."""

    schedule: ScheduleCase
    index: int
    poison: Poison


@st.composite
def poison_cases(draw: DrawFn, subject: Subject) -> PoisonCase:
    bounds = replace(bounds_of(subject.model, subject.runtime.capabilities), steps=1, latest_arrival=0)
    return PoisonCase(
        schedule=draw(schedules(bounds)),
        index=draw(st.integers(0, bounds.routed - 1)),
        poison=draw(st.sampled_from(POISONS)),
    )


def check_zero_projector(subject: Subject, case: ScheduleCase) -> None:
    """A PROJECT_ONLY row leaves its layer with the values it entered with."""
    policy = ZeroProjector(subject.served_policy())
    for step, ran in enumerate(run(subject, case, policy=policy)):
        hidden = ran.result.hidden
        if hidden is None:
            continue
        for line, layer in zip(case.tapes[step].actions, subject.model.routed_layers, strict=True):
            for row, action in enumerate(line):
                if action == Action.PROJECT_ONLY:
                    subject.seen["project_rows"] += 1
                    # -0.0 + 0.0 is 0.0, the same value
                    if not bool((hidden[layer + 1][row] == hidden[layer][row]).all()):
                        changed = (hidden[layer + 1][row] - hidden[layer][row]).abs().max()
                        facts = place(subject, case, step, row, layer) | {"change": f"{float(changed):.3g}"}
                        raise Violation("SEM-2", "skipped_row_changed", facts)


def check_poisoned_context(subject: Subject, case: PoisonCase) -> None:
    """The stream of rows that skip attention is the same, bit for bit, with and without the poison."""
    schedule = case.schedule
    layer = subject.model.routed_layers[case.index]
    line = schedule.tapes[0].actions[case.index]

    def before(step: int, session: Session) -> None:
        slots = _context_slots(schedule)
        for tensor in session.kv[layer]:
            tensor[slots] = _poisoned(tensor[slots], case.poison)

    clean, poisoned = run(subject, schedule)[0], run(subject, schedule, before=before)[0]
    rows = [row for row, action in enumerate(line) if not action & ATTENTION_BIT]
    compared = _compare(subject, schedule, layer, rows, clean, poisoned)
    starts = [chunk.start for chunk in schedule.steps[0].chunks for _ in chunk.tokens]
    subject.seen["poisoned_rows"] += sum(starts[row] > 0 for row in compared)


def _context_slots(schedule: ScheduleCase) -> list[int]:
    """Slots that were there before the pass."""
    size = schedule.layout.page_size
    return sorted({slot for chunk in schedule.steps[0].chunks for slot in chunk.context_slots(chunk.start, size)})


def _poisoned(values: Tensor, poison: Poison) -> Tensor:
    if poison == "other":
        return (3 - values.float()).to(values.dtype)
    return torch.full_like(values, float(poison))


def _compare(
    subject: Subject, schedule: ScheduleCase, layer: int, rows: list[int], clean: Ran, poisoned: Ran
) -> list[int]:
    """Rows whose clean stream is finite, hence whose comparison means something; raises Violation."""
    if clean.result.hidden is not None and poisoned.result.hidden is not None:
        pairs = [(row, poisoned.result.hidden[layer + 1][row], clean.result.hidden[layer + 1][row]) for row in rows]
    elif len(rows) == schedule.steps[0].rows:
        # without streams, only a pass whose rows all skip can be told
        pairs = [(rows[-1], poisoned.result.logits, clean.result.logits)]
    else:
        pairs = []
    for row, got, expected in pairs:
        found = differing(got, expected)
        if found is not None:
            raise Violation("SEM-2", "skipped_attention_leaks", place(subject, schedule, 0, row, layer) | found.facts())
    return [row for row, _, expected in pairs if bool(torch.isfinite(expected).all())]


def _cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return schedules(replace(bounds_of(subject.model, subject.runtime.capabilities), steps=2))


def _without_streams(subject: Subject) -> str | None:
    return None if subject.runtime.capabilities.hidden_states else "hidden_states"


SEM_ZERO_PROJECTOR = Property(
    id="sem.zero_projector",
    clause="SEM-2",
    title="with a projector of zeros a PROJECT_ONLY row leaves its layer unchanged",
    cases=_cases,
    check=check_zero_projector,
    counters=("project_rows",),
    examples=40,
    unsupported=_without_streams,
)
SEM_SKIPPED_ATTENTION = Property(
    id="sem.skipped_attention",
    clause="SEM-2",
    title="poison in the context of a row that skips attention changes no bit of it",
    cases=poison_cases,
    check=check_poisoned_context,
    counters=("poisoned_rows",),
    examples=60,
)
