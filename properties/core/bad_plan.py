"""IN-1: a pool or a pass that cannot be run is refused by the runtime under test, in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from properties.codec import case_type
from properties.core.refusal import check_refused
from properties.property import Property, Subject
from reference.plan import Chunk, PoolLayout, StepPlan

Bad = Callable[[int], tuple[PoolLayout, StepPlan]]
PAGES = 4


def _pool(page_size: int) -> PoolLayout:
    return PoolLayout(page_size=page_size, pages=PAGES)


def _step(rows: int, page: int = 1) -> StepPlan:
    chunk = Chunk(request="r0", tokens=(1,) * rows, start=0, pages=(page,), phase="prefill")
    return StepPlan(chunks=(chunk,) if rows else ())


POOLS: Mapping[str, Bad] = {
    "page_size_not_a_power_of_two": lambda seed: (_pool(3 + 2 * (seed % 8)), _step(1)),
    "page_size_zero": lambda seed: (_pool(0), _step(1)),
    "no_page_but_the_dummy": lambda seed: (PoolLayout(page_size=1, pages=1), _step(1)),
}
PASSES: Mapping[str, Bad] = {
    "zero_rows": lambda seed: (_pool(1), _step(0)),
    "too_few_pages": lambda seed: (_pool(1), _step(2 + seed % 3)),
    "page_outside_the_pool": lambda seed: (_pool(1), _step(1, page=PAGES + seed % 3)),
    "dummy_page": lambda seed: (_pool(1), _step(1, page=0)),
}
GROUPS = {"refused_pools": POOLS, "refused_passes": PASSES}


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class BadPlan:
    """kinds: one of POOLS and one of PASSES, each to be refused. seed: by how much it is wrong."""

    kinds: tuple[str, str]
    seed: int


def cases(subject: Subject) -> SearchStrategy[BadPlan]:
    kinds = st.tuples(*(st.sampled_from(tuple(group)) for group in GROUPS.values()))
    return st.builds(BadPlan, kinds=kinds, seed=st.integers(0, 99))


def check(subject: Subject, case: BadPlan) -> None:
    for kind, (counter, group) in zip(case.kinds, GROUPS.items(), strict=True):
        layout, plan = group[kind](case.seed)

        def start(seed: int, layout: PoolLayout = layout, plan: StepPlan = plan) -> None:
            subject.runtime.open(subject.model, subject.served_policy(), layout, "routed").step(plan)

        check_refused(kind, start, case.seed)
        subject.seen[counter] += 1


PLAN_REFUSED = Property(
    id="input.plan_refused",
    clause="IN-1",
    title="a pool or a pass that cannot be run is refused, in one line",
    cases=cases,
    check=check,
    counters=tuple(GROUPS),
    examples=30,
)
