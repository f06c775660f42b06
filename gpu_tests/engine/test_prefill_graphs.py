"""A dense prefill takes the engine's own graph, a routed one never does."""

from __future__ import annotations

import pytest

from gpu_tests.engine.life import lived, prefills
from gpu_tests.engine.places import PLACED, Place
from properties.lifecycle.case import Arrival, LifeCase, Rules
from properties.lifecycle.engine import Shape
from vskipper.sglang.probe import installed_root, probe_tree

# the shape of the seam where prefill graphs are of the kind that the suite captures
CAPTURED = "prefill-runner"
SHAPE = Shape(page_size=64, chunk=64, tokens=512, running=4, overlap=True, mixed=False)
# one after the other, each a prompt for which the engine may take its graph of 64 rows
ARRIVALS = tuple(Arrival(at=20 * number, prefix=0, shared=0, own=40, outputs=2) for number in range(8))


def prefill_shape() -> str:
    """What the installed SGLang has."""
    return next(seam.word for seam in probe_tree(installed_root()).seams if seam.name == "prefill-veto")


@pytest.mark.parametrize("place", PLACED)
def test_a_dense_prefill_keeps_its_graph_and_a_routed_one_has_none(place: Place) -> None:
    # every row of a routed phase is projected, and half the requests prefill dense
    case = LifeCase(shape=SHAPE, rules=Rules(eighths=8, thirds=3, mode=1), arrivals=ARRIVALS)
    of_stock = prefills(lived(place, case, case.rules.served(), stock=True))
    assert len(of_stock) == len(ARRIVALS)
    shape = prefill_shape()
    if shape != CAPTURED and not any(each.replayed for each in of_stock):
        pytest.skip(f"prefill graphs of an older kind, {shape}, which the suite leaves off")
    found = prefills(lived(place, case, case.rules.served()))
    dense, routed = (tuple(each for each in found if (each.actions is None) == want) for want in (True, False))
    assert dense and routed and len(found) == len(of_stock)
    assert all(each.replayed for each in (*of_stock, *dense))
    assert not any(each.replayed for each in routed)
