"""MAP-1: the cohort map of each routed layer, held against a count of who comes before whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis.strategies import SearchStrategy

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase
from properties.drive import run
from properties.property import Property, Subject
from properties.violation import Violation

# SKIP_MLP, RUN, SKIP_ATTN, PROJECT_ONLY; written out here, so that a change of the runtime's order shows
RANK = {1: 0, 3: 1, 2: 2, 0: 3}


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    capabilities = subject.runtime.capabilities
    bounds = replace(bounds_of(subject.model, capabilities), contexts=False, chunk=8)
    return schedules(replace(bounds, padding=3 if capabilities.padding else 0))


def check(subject: Subject, case: ScheduleCase) -> None:
    for step, ran in enumerate(run(subject, case)):
        lines = case.tapes[step].actions
        if len(ran.result.cohorts) != len(lines):
            facts = {"step": step, "got": len(ran.result.cohorts), "expected": len(lines)}
            raise Violation("MAP-1", "no_cohorts", facts)
        for index, (line, (rows, offsets)) in enumerate(zip(lines, ran.result.cohorts, strict=True)):
            where: dict[str, object] = {"step": step, "layer": subject.model.routed_layers[index]}
            check_map(line, rows.tolist(), offsets.tolist(), where)
            subject.seen["mixed_layers"] += len(set(line)) > 1
            subject.seen["empty_cohorts"] += len(set(line)) < len(RANK)
            subject.seen["map_ends"] += 1


def check_map(line: Sequence[int], rows: list[int], offsets: list[int], where: dict[str, object]) -> None:
    """One layer: line, the actions of the valid rows; rows and offsets, the map. Raises Violation."""
    before = [sum(RANK[action] < cohort for action in line) for cohort in range(len(RANK) + 1)]
    if offsets != before:
        raise Violation("MAP-1", "wrong_offsets", where | {"got": offsets, "expected": before})
    mapped, tail = rows[: len(line)], rows[len(line) :]
    if sorted(mapped) != list(range(len(line))):
        raise Violation("MAP-1", "not_partition", where | {"got": mapped, "rows": len(line)})
    for row, action in enumerate(line):
        earlier = [(RANK[other], number) < (RANK[action], row) for number, other in enumerate(line)]
        if mapped[sum(earlier)] != row:
            facts = {"row": row, "got": mapped.index(row), "expected": sum(earlier)}
            raise Violation("MAP-1", "wrong_order", where | facts)
    # a runtime under test fills its map with negative numbers before a pass
    written = [entry for entry in tail if entry >= 0]
    if written:
        raise Violation("MAP-1", "beyond_count_written", where | {"got": tail, "expected": "untouched"})


MAP_PARTITION = Property(
    id="map.partition",
    clause="MAP-1",
    title="cohort maps partition the valid rows in order, and end where the count says",
    cases=cases,
    check=check,
    counters=("mixed_layers", "empty_cohorts", "map_ends"),
    examples=100,
)
