"""Each lifecycle property has a case on every shape, whatever is drawn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.runtimes.sglang.scheduler.engine import SchedulerEngine
from gpu_tests.engine.shapes import one_a_shape
from properties.lifecycle.case import SHAPES
from properties.property import Property
from properties.registry import LIFECYCLE


def test_pages_and_overlap_are_among_the_shapes() -> None:
    assert {shape.page_size for shape in SHAPES} == {1, 16, 64}
    assert {shape.overlap for shape in SHAPES} == {shape.mixed for shape in SHAPES} == {False, True}


@pytest.mark.parametrize("rule", LIFECYCLE, ids=lambda rule: rule.id)
def test_there_is_a_case_on_each(rule: Property) -> None:
    subject: Any = SimpleNamespace(runtime=SimpleNamespace(lifecycle=SchedulerEngine()))
    assert tuple(case.shape for case in one_a_shape(rule, subject)) == SHAPES
