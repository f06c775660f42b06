"""WORK-1: what ran is what the tape says, by the counts of the code that ran it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis.strategies import SearchStrategy

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase
from properties.drive import run
from properties.property import Property, Subject
from properties.runtime import LayerWork, StepResult
from properties.violation import Violation
from vskipper.action import Action


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    capabilities = subject.runtime.capabilities
    bounds = replace(bounds_of(subject.model, capabilities), chunk=6)
    return schedules(replace(bounds, padding=2 if capabilities.padding else 0))


def check(subject: Subject, case: ScheduleCase) -> None:
    for step, ran in enumerate(run(subject, case)):
        lines = case.tapes[step].actions
        _check_actions(subject, step, ran.result, lines)
        if len(ran.result.work) != len(lines):
            facts = {"step": step, "got": len(ran.result.work), "expected": len(lines)}
            raise Violation("WORK-1", "no_routed_work", facts)
        for index, (line, work) in enumerate(zip(lines, ran.result.work, strict=True)):
            where: dict[str, object] = {"step": step, "layer": subject.model.routed_layers[index]}
            _check_counts(line, work, where)
            if ran.result.cohorts:
                _check_cohorts(work, ran.result.cohorts[index][1].tolist(), where)
            subject.seen["run_rows"] += line.count(int(Action.RUN))
            subject.seen["project_rows"] += line.count(int(Action.PROJECT_ONLY))
            subject.seen["empty_branches"] += 0 in (work.attention, work.mlp, work.projector)


def _check_actions(subject: Subject, step: int, result: StepResult, lines: tuple[tuple[int, ...], ...]) -> None:
    got = tuple(map(tuple, result.actions.tolist()))
    if len(got) != len(lines):
        raise Violation("WORK-1", "no_routed_work", {"step": step, "got": len(got), "expected": len(lines)})
    for layer, line, expected in zip(subject.model.routed_layers, got, lines, strict=True):
        if line != expected:
            raise Violation(
                "WORK-1", "actions_differ", {"step": step, "layer": layer, "got": line, "expected": expected}
            )


def _check_counts(line: tuple[int, ...], work: LayerWork, where: dict[str, object]) -> None:
    actions = [Action(action) for action in line]
    for branch, got, expected in (
        ("attention", work.attention, sum(action.attention for action in actions)),
        ("mlp", work.mlp, sum(action.mlp for action in actions)),
        ("projector", work.projector, actions.count(Action.PROJECT_ONLY)),
        ("kv", work.kv_rows, len(actions)),
    ):
        if got != expected:
            reason = "rows_missing" if got < expected else "rows_extra"
            raise Violation("WORK-1", reason, where | {"branch": branch, "got": got, "expected": expected})


def _check_cohorts(work: LayerWork, offsets: list[int], where: dict[str, object]) -> None:
    sizes = (offsets[2] - offsets[0], offsets[3] - offsets[1], offsets[4] - offsets[3])
    got = (work.attention, work.mlp, work.projector)
    if got != sizes:
        raise Violation("WORK-1", "cohorts_differ", where | {"got": sizes, "expected": got})


WORK_COUNTS = Property(
    id="work.counts",
    clause="WORK-1",
    title="recorded actions, counted rows and cohort sizes equal the tape's",
    cases=cases,
    check=check,
    counters=("run_rows", "project_rows", "empty_branches"),
    examples=100,
)
