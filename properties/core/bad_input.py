"""IN-1: what cannot be served is refused at start, in one line that says what, where, got and expected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from properties.codec import case_type
from properties.core.bad_engine import ENGINES
from properties.core.bad_files import FILES, SETTINGS
from properties.core.bad_gpu import GPUS
from properties.core.refusal import Start, check_refused
from properties.property import Property, Subject

# by the counter of what was refused
GROUPS: Mapping[str, Mapping[str, Start]] = {
    "refused_files": FILES,
    "refused_settings": SETTINGS,
    "refused_engines": ENGINES,
    "refused_gpus": GPUS,
}


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class BadInput:
    """kinds: one of FILES, one of SETTINGS and one of ENGINES or GPUS, each to be refused. seed: which tensor, byte or
    value is spoilt."""

    kinds: tuple[str, str, str]
    seed: int


def cases(subject: Subject) -> SearchStrategy[BadInput]:
    # an engine is read for a while, so that not every case has one
    kinds = st.tuples(*(st.sampled_from(tuple(group)) for group in (FILES, SETTINGS, {**ENGINES, **GPUS})))
    return st.builds(BadInput, kinds=kinds, seed=st.integers(0, 999))


def check(subject: Subject, case: BadInput) -> None:
    for kind in case.kinds:
        counter, group = next(entry for entry in GROUPS.items() if kind in entry[1])
        check_refused(kind, group[kind], case.seed)
        subject.seen[counter] += 1


INPUT_REFUSED = Property(
    id="input.refused",
    clause="IN-1",
    title="a checkpoint, a setting, an engine or a GPU that cannot be served is refused at start, in one line",
    cases=cases,
    check=check,
    counters=tuple(GROUPS),
    examples=120,
    scope="start",
)
