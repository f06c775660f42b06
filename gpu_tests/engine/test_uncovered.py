"""A decode batch that no routed graph covers runs dense as a whole, never eagerly routed, and is counted."""

from __future__ import annotations

import pytest

from gpu_tests.engine.life import decodes, lived
from gpu_tests.engine.places import PLACED, Place
from properties.lifecycle.case import Arrival, LifeCase, Rules
from properties.lifecycle.engine import Shape
from reference.action import PROJECT_ONLY

SHAPE = Shape(page_size=16, chunk=32, tokens=512, running=4, overlap=True, mixed=False)
GRAPHS = (1, 2)
# the batch grows beyond the graphs and shrinks again
ARRIVALS = tuple(Arrival(at=number, prefix=0, shared=0, own=9, outputs=8 + 3 * number) for number in range(4))


@pytest.mark.parametrize("place", PLACED)
def test_a_batch_larger_than_the_graphs_runs_dense_and_its_share_says_so(place: Place) -> None:
    case = LifeCase(shape=SHAPE, rules=Rules(eighths=8, thirds=3, mode=0), arrivals=ARRIVALS)
    history = lived(place, case, case.rules.served(), graphs=GRAPHS)
    found = decodes(history)
    larger = [each for each in found if len(each.rows) > max(GRAPHS)]
    covered = [each for each in found if len(each.rows) <= max(GRAPHS)]
    assert larger and covered
    assert all(each.actions is None for each in larger)
    assert all(each.actions is not None and each.replayed for each in covered)
    for name, ran in history.requests.items():
        assert ran.finish == "length" and ran.told is not None
        taken = [each.action(row) for each in found for row, one in enumerate(each.rows) if one.request == name]
        # the last pass is of a token that nobody asked for, where the next batch is made before the last one ends
        projected = [action is not None and set(action) == {PROJECT_ONLY} for action in taken][: len(ran.outputs) - 1]
        assert ran.told["skipped_share"]["decode"] == sum(projected) / len(projected)
