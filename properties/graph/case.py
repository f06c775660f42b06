"""Sequences of decode passes on captured graphs: requests that enter with K and V, and routes around what a graph was
captured with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from properties.batch import Script, lay_out
from properties.case import ScheduleCase
from properties.codec import case_type
from properties.graph.engine import captured_count
from properties.layout import placements
from properties.property import Subject
from properties.tape import eighths_of, tapes
from reference.action import PROJECT_ONLY, RUN
from reference.plan import Fill, StepPlan, TapePlan
from vskipper.errors import InputError

CONTEXTS = (1, 2, 5, 15, 16, 17, 40, 63, 64, 65)
# so long that a backend splits it among programs, by a plan of its own
LONG = (129, 300)


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCase:
    """schedule: its passes decode only. dense: which of them take the dense graph. order: in which the passes are run
    a second time. fill: of padding rows."""

    schedule: ScheduleCase
    dense: tuple[bool, ...]
    order: tuple[int, ...]
    fill: Fill = "zero"


def captured_size(sizes: Sequence[int], rows: int) -> int:
    """Of the graph that runs a pass of so many rows."""
    return min(size for size in sizes if size >= rows)


@st.composite
def graph_cases(
    draw: st.DrawFn, subject: Subject, *, dense: bool = False, steps: int = 4, long: bool = True
) -> GraphCase:
    """dense: whether some passes take the dense graph. long: whether a context may be one of LONG."""
    sizes = graph_sizes(subject)
    capabilities = subject.runtime.capabilities
    placement = draw(placements(capabilities.page_sizes))
    # one request is there in several passes, so that a graph is replayed with other routes than before
    context = draw(st.sampled_from(LONG if long and draw(st.booleans()) else CONTEXTS))
    lasting = Script(context=context, chunks=(1,) * draw(st.integers(2, steps)), arrival=0, shares=False)
    lives = [lasting, *draw(st.lists(_scripts(steps), max_size=max(sizes) - 1))]
    orders = draw(st.lists(st.integers(0, 23), min_size=steps, max_size=steps))
    case = lay_out(
        lives,
        placement,
        orders=orders,
        steps=steps,
        seed=draw(st.integers(0, 15)),
        vocab=subject.model.config.vocab_size,
    )
    count = len(case.steps)
    routes = tuple(draw(graph_tapes(subject, step, sizes)) for step in case.steps)
    return GraphCase(
        schedule=replace(case, tapes=routes),
        dense=tuple(draw(st.booleans()) if dense else False for _ in range(count)),
        order=tuple(draw(st.permutations(range(count)))),
        fill=draw(st.sampled_from(("nan", "inf", "old"))),
    )


@st.composite
def _scripts(draw: st.DrawFn, steps: int) -> Script:
    return Script(
        context=draw(st.sampled_from(CONTEXTS)),
        chunks=(1,) * draw(st.integers(1, steps)),
        arrival=draw(st.integers(0, 2)),
        shares=draw(st.booleans()),
    )


@st.composite
def graph_tapes(draw: st.DrawFn, subject: Subject, step: StepPlan, sizes: Sequence[int]) -> TapePlan:
    """Mostly as many PROJECT_ONLY rows as the graph was captured with, one more or less, none or all; else any routes.
    Weights where the model's gate mode has them."""
    rows, layers = step.rows, len(subject.model.routed_layers)
    actions = subject.runtime.capabilities.actions
    weighted = subject.model.weighted
    if draw(st.integers(0, 3)) == 0:
        return draw(tapes(layers, rows, actions, st.just(weighted)))
    counts = draw(st.lists(_counts(rows, sizes), min_size=layers, max_size=layers))
    lines = tuple(_line(rows, count, draw(st.booleans())) for count in counts)
    return TapePlan(actions=lines, eighths=eighths_of(lines, draw(st.integers(0, 7))) if weighted else None)


def _counts(rows: int, sizes: Sequence[int]) -> st.SearchStrategy[int]:
    around = captured_count(captured_size(sizes, rows))
    wanted: Collection[int] = {0, 1, around - 1, around, around + 1, rows}
    return st.sampled_from(sorted(count for count in wanted if 0 <= count <= rows))


def _line(rows: int, count: int, last: bool) -> tuple[int, ...]:
    skips = range(rows - count, rows) if last else range(count)
    return tuple(PROJECT_ONLY if row in skips else RUN for row in range(rows))


def project_counts(tape: TapePlan) -> tuple[int, ...]:
    """PROJECT_ONLY rows of each routed layer."""
    return tuple(line.count(PROJECT_ONLY) for line in tape.actions)


def graph_sizes(subject: Subject) -> tuple[int, ...]:
    """Of the subject's runtime; raises ValueError where it has no graphs."""
    engine = getattr(subject.runtime, "graphs", None)
    if engine is None:
        where = f"runtime {subject.runtime.name}"
        raise InputError("decode graphs", where=where, got="none", expected="an engine that captures some")
    sizes: tuple[int, ...] = engine.sizes
    return sizes
