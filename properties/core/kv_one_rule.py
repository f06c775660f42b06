"""KV-4: a row's K and V of a layer are stored by one rule, whatever the row does at that layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase
from properties.codec import case_type
from properties.compare import differing
from properties.drive import run
from properties.facts import place
from properties.property import Property, Subject
from properties.violation import Violation
from reference.plan import PoolLayout, TapePlan

CLAUSE = "KV-4"
# RUN and PROJECT_ONLY change places, and so do the two sublayer actions
OPPOSITE = 3


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class OneRuleCase:
    """One pass, and the routed layer (by index) at which every row's action is exchanged for its opposite."""

    schedule: ScheduleCase
    index: int

    def exchanged(self) -> ScheduleCase:
        tape = self.schedule.tapes[0]
        lines = list(tape.actions)
        lines[self.index] = tuple(OPPOSITE - action for action in lines[self.index])
        return replace(self.schedule, tapes=(TapePlan(actions=tuple(lines), eighths=tape.eighths),))


@st.composite
def one_rule_cases(draw: DrawFn, subject: Subject) -> OneRuleCase:
    capabilities = subject.runtime.capabilities
    scales = st.sampled_from((1.0, 0.5, 4.0) if capabilities.kv_scales else (1.0,))
    kv_dtype = draw(st.sampled_from(capabilities.kv_dtypes))
    layout = PoolLayout(page_size=1, pages=1, kv_dtype=kv_dtype, k_scale=draw(scales), v_scale=draw(scales))
    schedule = draw(schedules(replace(bounds_of(subject.model, capabilities), steps=1), layout))
    return OneRuleCase(schedule=schedule, index=draw(st.integers(0, len(subject.model.routed_layers) - 1)))


def cases(subject: Subject) -> SearchStrategy[OneRuleCase]:
    return one_rule_cases(subject)


def _converts(subject: Subject) -> bool:
    return len(subject.runtime.capabilities.kv_dtypes) > 1


def check(subject: Subject, case: OneRuleCase) -> None:
    (one,), (other,) = run(subject, case.schedule), run(subject, case.exchanged())
    last = subject.model.routed_layers[case.index]
    for layer in range(last + 1):
        for part, name in enumerate("kv"):
            found = differing(one.kv[layer][part], other.kv[layer][part])
            if found is not None:
                facts = place(subject, case.schedule, 0, found.index[0], layer) | {"part": name}
                raise Violation(CLAUSE, "rule_depends_on_action", facts | found.facts())
    rows = case.schedule.steps[0].rows
    subject.seen["exchanged_rows"] += rows
    subject.seen["converted_rows"] += rows if case.schedule.layout.kv_dtype is not None else 0


KV_ONE_RULE = Property(
    id="kv.one_rule",
    clause=CLAUSE,
    title="what a row stores at a layer does not depend on what it does there",
    cases=cases,
    check=check,
    counters=("exchanged_rows", "converted_rows"),
    only_where={"converted_rows": _converts},
    examples=60,
)
