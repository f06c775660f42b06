"""What a property is run on: frozen records of integers, drawn before any tensor exists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from properties.codec import case_type
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from reference.rows import Row, rows_of

for _plan_type in (PoolLayout, Chunk, StepPlan, TapePlan):
    case_type(_plan_type)


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """K/V that a request already has when it enters: the suite itself writes positions 0 .. length - 1 into the pool
    just before step `step`, from the case's seed, as if the pages had been brought back from elsewhere."""

    request: str
    length: int
    pages: tuple[int, ...]
    step: int


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCase:
    """Passes on one pool, one after the other, each with its forced routes. seed: of the contexts' K/V."""

    layout: PoolLayout
    steps: tuple[StepPlan, ...]
    tapes: tuple[TapePlan, ...]
    contexts: tuple[Context, ...] = ()
    seed: int = 0

    @property
    def requests(self) -> tuple[str, ...]:
        """Names in the order of their first chunk."""
        return tuple(dict.fromkeys(chunk.request for step in self.steps for chunk in step.chunks))

    def rows(self, step: int) -> tuple[Row, ...]:
        """The valid rows of one pass, in plan order."""
        return rows_of(self.steps[step], self.layout)

    def hard(self) -> ScheduleCase:
        """The same passes in gate mode hard."""
        return replace(self, tapes=tuple(replace(tape, eighths=None) for tape in self.tapes))


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCase:
    """Rows of a few requests for a policy alone: lengths[i] rows of request i, one after the other from position
    starts[i] on. order: a permutation of all rows. seed: of tokens, requests' names and hidden states."""

    lengths: tuple[int, ...]
    starts: tuple[int, ...]
    decodes: tuple[bool, ...]
    order: tuple[int, ...]
    padding: int = 0
    seed: int = 0

    @property
    def rows(self) -> int:
        return sum(self.lengths)


def select_rows(tape: TapePlan, keep: tuple[int, ...]) -> TapePlan:
    """The tape of rows `keep`, in that order."""
    actions = tuple(tuple(line[row] for row in keep) for line in tape.actions)
    if tape.eighths is None:
        return TapePlan(actions=actions)
    return TapePlan(actions=actions, eighths=tuple(tuple(line[row] for row in keep) for line in tape.eighths))


def chunk_rows(plan: StepPlan) -> tuple[tuple[int, ...], ...]:
    """For each chunk, the numbers of its rows in the pass."""
    starts = [0]
    for chunk in plan.chunks:
        starts.append(starts[-1] + len(chunk.tokens))
    return tuple(tuple(range(a, b)) for a, b in pairwise(starts))


def reorder(plan: StepPlan, tape: TapePlan, order: tuple[int, ...]) -> tuple[StepPlan, TapePlan, tuple[int, ...]]:
    """Chunks (or some of them) in another order: the plan, its tape, and for each new row its old number."""
    rows = chunk_rows(plan)
    moved = tuple(row for chunk in order for row in rows[chunk])
    return replace(plan, chunks=tuple(plan.chunks[i] for i in order)), select_rows(tape, moved), moved
