"""POL-2: what a captured policy is shown are the rows of the batch that is replayed, though the host has gone on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from properties.codec import case_type
from properties.graph.case import GraphCase, graph_cases
from properties.graph.drive import opened_graphs, work_of
from properties.graph.engine import Decided
from properties.property import Property, Subject
from properties.row_batch import batch_of
from properties.stand_in import StandIn
from properties.violation import Violation
from reference.plan import StepPlan
from vskipper.action import Action
from vskipper.policy import Route, RowBatch, SkipPolicy

CLAUSE = "POL-2"


class RowsShown(StandIn):
    """Decides by all that it is shown of a row and by nothing else."""

    def __init__(self, inner: SkipPolicy, *, weighted: bool) -> None:
        super().__init__(inner)
        self._weighted = weighted

    def begin(self, batch: RowBatch) -> Any:
        return shown(batch), super().begin(batch)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        weights = torch.full_like(x[:, 0], 0.5) if self._weighted else None
        return Route(actions=decided(layer, state[0]), weights=weights)

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        return super().project(layer, y, state[1])


def shown(batch: RowBatch) -> Tensor:
    """int64 [rows]; another number as good as always where anything of a row is another."""
    return batch.request_keys + 3 * batch.positions + 5 * batch.token_ids + 7 * batch.phases.to(torch.int64)


def decided(layer: int, seen: Tensor) -> Tensor:
    """uint8 [rows], RUN or PROJECT_ONLY by one bit of what was shown."""
    skips = (seen >> layer % 8) & 1
    return torch.where(skips.bool(), int(Action.PROJECT_ONLY), int(Action.RUN)).to(torch.uint8)


@cache
def rows_shown(inner: SkipPolicy, weighted: bool) -> RowsShown:
    """The same for the same policy: graphs are kept by it."""
    return RowsShown(inner, weighted=weighted)


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCase:
    """graph: its passes; their routes and contexts are not used. dense: for each pass whether each of its requests, in
    the pass's order, runs as the dense model does."""

    graph: GraphCase
    dense: tuple[tuple[bool, ...], ...]


@st.composite
def shown_cases(draw: st.DrawFn, subject: Subject) -> ShownCase:
    # a backend stages its plans as well, and counts on the device being one pass behind: short contexts have one plan
    graph = draw(graph_cases(subject, steps=6, long=False))
    # a batch of dense requests alone is no routed pass
    lines = [
        tuple(draw(st.booleans()) and number > 0 for number in range(len(step.chunks))) for step in graph.schedule.steps
    ]
    return ShownCase(graph=graph, dense=tuple(lines))


def check(subject: Subject, case: ShownCase) -> None:
    """All passes are queued before the first is read."""
    policy = rows_shown(subject.served_policy(), subject.model.weighted)
    steps = case.graph.schedule.steps
    dense = [
        frozenset(chunk.request for chunk, alone in zip(step.chunks, line, strict=True) if alone)
        for step, line in zip(steps, case.dense, strict=True)
    ]
    with opened_graphs(subject, case.graph, policy=policy) as session:
        results = session.decode_all(steps, dense)
    expected = [_decided(subject, step, apart) for step, apart in zip(steps, dense, strict=True)]
    _check_rows(subject, expected, results)
    _check_work(subject, expected, results)
    subject.seen["dense_rows"] += sum(map(len, dense))
    subject.seen["later_passes"] += len(steps) - 1


def _decided(subject: Subject, step: StepPlan, dense: frozenset[str]) -> list[list[int]]:
    """[routed layers][rows] of the pass."""
    seen = shown(batch_of(step))
    alone = torch.tensor([chunk.request in dense for chunk in step.chunks])
    lines = [decided(layer, seen).masked_fill(alone, int(Action.RUN)) for layer in subject.model.routed_layers]
    return [line.tolist() for line in lines]


def _check_rows(subject: Subject, expected: Sequence[Sequence[Sequence[int]]], results: Sequence[Decided]) -> None:
    for step, (lines, result) in enumerate(zip(expected, results, strict=True)):
        for layer, line, got in zip(subject.model.routed_layers, lines, result.actions.tolist(), strict=True):
            if got != line:
                facts = {"step": step, "layer": layer, "got": tuple(got), "expected": tuple(line)}
                raise Violation(CLAUSE, "rows_differ", facts)
            skips = line.count(int(Action.PROJECT_ONLY))
            subject.seen["skipped"] += skips
            subject.seen["run"] += len(line) - skips


def _check_work(subject: Subject, expected: Sequence[Sequence[Sequence[int]]], results: Sequence[Decided]) -> None:
    for step, (lines, result) in enumerate(zip(expected, results, strict=True)):
        for layer, line, work in zip(subject.model.routed_layers, lines, result.work, strict=True):
            if work != work_of(line):
                facts = {"step": step, "layer": layer, "got": astuple(work), "expected": astuple(work_of(line))}
                raise Violation(CLAUSE, "work_differs", facts)


GRAPH_ROWS = Property(
    id="graph.rows",
    clause=CLAUSE,
    title="a captured policy is shown the rows of its batch, and dense requests among them run whole",
    cases=shown_cases,
    check=check,
    counters=("skipped", "run", "dense_rows", "later_passes"),
    examples=40,
)
