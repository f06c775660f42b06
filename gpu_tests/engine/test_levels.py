"""Core, Graph and Lifecycle on SGLang with every attention backend that this GPU has, with few examples each, of the
lifecycle one on every shape of an engine: what `vskipper certify --device cuda` runs in full."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.must_pass import load_must_pass
from conformance.subjects import build_subject
from gpu_tests.engine.places import PLACES, Place
from gpu_tests.engine.shapes import one_a_shape
from properties.property import Property
from properties.registry import PROPERTIES
from properties.run import run_property

EXAMPLES = {"core": 6, "graph": 10, "lifecycle": 2}
CASES = [
    pytest.param(place, level, rule, id=f"{place.name}-{rule.id}", marks=pytest.mark.xdist_group(place.name))
    for place in PLACES
    for level, rules in PROPERTIES.items()
    for rule in rules
]


def optional(level: str, property: str) -> bool:
    """Whether the level does without it where a runtime lacks what it needs."""
    return any(need.optional for need in load_must_pass(level).requirements if need.property == property)


@pytest.mark.parametrize(("place", "level", "rule"), CASES)
def test_holds(place: Place, level: str, rule: Property, record_property: Callable[[str, object], None]) -> None:
    record_property("engine", f"{place.name} {level}")
    place.require()
    subject = build_subject(place.spec)
    first = one_a_shape(rule, subject) if level == "lifecycle" else ()
    outcome = run_property(rule, subject, examples=EXAMPLES[level], seed=1, first=first)
    if outcome.status == "unsupported":
        assert optional(level, rule.id), outcome.detail
        pytest.skip(f"{rule.id}: the runtime does not declare what it needs")
    # whole: what an assertion shows of an outcome is cut short
    told = "" if outcome.violation is None else outcome.violation.line()
    assert outcome.status == "passed", f"{told}\n{outcome.detail}"
