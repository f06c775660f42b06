"""GRAPH-3: padding rows are inert whatever they hold, and nobody counts them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase, chunk_rows
from properties.codec import case_type
from properties.core.kv_writes import owner
from properties.drive import Ran, run
from properties.oracle import oracle_of
from properties.pool import Kv, fill_pattern, snapshot, touched
from properties.property import Property, Subject
from properties.runtime import Session
from properties.views import check_invariant, first_difference, view_of_run, views_of_oracle
from properties.violation import Violation
from reference.plan import Fill
from vskipper.action import ATTENTION_BIT, MLP_BIT, Action

CLAUSE = "GRAPH-3"


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class PaddingCase:
    """padding[i]: rows added to pass i. fill: what they hold."""

    schedule: ScheduleCase
    padding: tuple[int, ...]
    fill: Fill

    def padded(self, fill: Fill) -> ScheduleCase:
        """The schedule with its padding rows, holding `fill`."""
        steps = zip(self.schedule.steps, self.padding, strict=True)
        return replace(self.schedule, steps=tuple(replace(step, padding=count, fill=fill) for step, count in steps))


@st.composite
def padding_cases(draw: DrawFn, subject: Subject) -> PaddingCase:
    bounds = replace(bounds_of(subject.model, subject.runtime.capabilities), steps=2, decodes=1)
    schedule = draw(schedules(bounds))
    return PaddingCase(
        schedule=schedule,
        padding=tuple(draw(st.integers(1, 5)) for _ in schedule.steps),
        fill=draw(st.sampled_from([fill for fill in bounds.fills if fill != "zero"])),
    )


def check(subject: Subject, case: PaddingCase) -> None:
    poisoned, zero, none = case.padded(case.fill), case.padded("zero"), case.schedule
    before: list[Kv] = []

    def take(step: int, session: Session) -> None:
        before[:] = [snapshot(session.kv)]

    def compare(step: int, session: Session) -> None:
        _check_pool(poisoned, step, before[0], snapshot(session.kv))

    # everywhere the same finite pattern, so that a stray read is the same in all three
    fill = partial(fill_pattern, seed=1)
    runs = (
        run(subject, poisoned, fill=fill, before=take, after=compare),
        run(subject, zero, fill=fill),
        run(subject, none),
    )
    for step, count in enumerate(case.padding):
        _check_uncounted(subject, poisoned, step, runs[0][step])
        _check_outputs(subject, case, step, tuple(each[step] for each in runs))
        subject.seen["pad_rows"] += count
        subject.seen["poisoned_pad_rows"] += count * (case.fill != "zero")


def _check_pool(case: ScheduleCase, step: int, old: Kv, new: Kv) -> None:
    own = {row.slot for row in case.rows(step)} | set(range(case.layout.page_size))
    stray = touched(old, new, own)
    if stray is not None:
        facts = {"step": step, "layer": stray.layer, "slot": stray.slot, "owner": owner(case, step, stray.slot)}
        raise Violation(CLAUSE, "pad_written", facts | {"padding": case.steps[step].padding})


def _check_uncounted(subject: Subject, case: ScheduleCase, step: int, ran: Ran) -> None:
    """No padding row in a result, a cohort or a count."""
    valid = case.steps[step].rows
    where: dict[str, object] = {"step": step, "rows": valid, "padding": case.steps[step].padding}
    if ran.result.actions.shape[1] != valid or (ran.result.hidden is not None and ran.result.hidden.shape[1] != valid):
        raise Violation(CLAUSE, "pad_returned", where | {"got": tuple(ran.result.actions.shape)})
    for layer, (rows, offsets) in zip(subject.model.routed_layers, ran.result.cohorts, strict=False):
        members = rows[: int(offsets[-1])].tolist()
        if any(row >= valid for row in members):
            raise Violation(CLAUSE, "pad_in_cohort", where | {"layer": layer, "cohorts": members})
    for layer, work, line in zip(subject.model.routed_layers, ran.result.work, case.tapes[step].actions, strict=False):
        expected = (
            sum(bool(action & ATTENTION_BIT) for action in line),
            sum(bool(action & MLP_BIT) for action in line),
            line.count(int(Action.PROJECT_ONLY)),
            valid,
        )
        got = (work.attention, work.mlp, work.projector, work.kv_rows)
        if any(g > e for g, e in zip(got, expected, strict=True)):
            raise Violation(CLAUSE, "pad_counted", where | {"layer": layer, "got": got, "expected": expected})


def _check_outputs(subject: Subject, case: PaddingCase, step: int, runs: tuple[Ran, ...]) -> None:
    """Poisoned against zero padding bit for bit: same shapes, same kernels; zero padding against none as declared."""
    layout, dtype = case.schedule.layout, subject.model.dtype
    answer = oracle_of(subject).answer(case.schedule)
    for chunk, rows in enumerate(chunk_rows(case.schedule.steps[step])):
        poisoned, zero, none = (view_of_run(ran, layout, dtype, chunk, rows) for ran in runs)
        where: dict[str, object] = {
            "step": step,
            "request": case.schedule.steps[step].chunks[chunk].request,
            "padding": case.padding[step],
            "fill": case.fill,
        }
        found = first_difference(poisoned, zero)
        if found is not None:
            finite = all(bool(torch.isfinite(tensor).all()) for tensor in poisoned.values())
            raise Violation(CLAUSE, "pad_changes_output" if finite else "nan_propagated", where | found)
        oracle = views_of_oracle(answer, step, chunk, rows)
        check_invariant(subject, CLAUSE, "pad_count_changes_output", where, (zero, none), oracle)


PAD_INERT = Property(
    id="pad.inert",
    clause=CLAUSE,
    title="padding rows, whatever they hold, change no result, no KV and no count",
    cases=padding_cases,
    check=check,
    counters=("pad_rows", "poisoned_pad_rows"),
    compares="margin",
    examples=60,
    unsupported=lambda subject: None if subject.runtime.capabilities.padding else "padding",
)
