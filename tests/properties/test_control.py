"""Every property passes on the oracle itself, having seen what it must see."""

from __future__ import annotations

import pytest

from properties.property import Property
from properties.registry import CORE
from properties.run import run_property
from tests.properties.tiny_subject import subject_of

# kinds of bad input are many
EXAMPLES = {"input.refused": 60, "input.plan_refused": 20}


@pytest.mark.parametrize("model", ["tiny-llama", "tiny-qwen3"])
@pytest.mark.parametrize("property", CORE, ids=lambda property: property.id)
def test_holds_on_the_reference_runtime(property: Property, model: str) -> None:
    count = EXAMPLES.get(property.id, 10)
    outcome = run_property(property, subject_of(model), examples=count, seed=4)
    assert (outcome.status, outcome.violation) == ("passed", None), outcome.detail
    assert outcome.examples == count


def test_the_oracle_as_a_runtime_has_a_margin_of_one_in_k() -> None:
    outcome = run_property(next(p for p in CORE if p.id == "sem.outputs"), subject_of(), examples=5, seed=1)
    assert outcome.margin is not None and 0 < outcome.margin <= 1 / 8


def test_ids_are_unique_and_every_clause_of_the_level_that_a_runtime_shows_has_one() -> None:
    assert len({property.id for property in CORE}) == len(CORE)
    clauses = {property.clause for property in CORE}
    expected = "KV-1 KV-2 KV-3 KV-4 MAP-1 MAP-2 MAP-3 SEM-1 SEM-2 SEM-3 SEM-4 GRAPH-3 POL-1 POL-2 WORK-1"
    assert set(expected.split()) <= clauses
