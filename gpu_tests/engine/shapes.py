"""Cases of a lifecycle property on every shape of an engine, which the few that are drawn need not meet."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from properties.lifecycle.case import SHAPES
from properties.lifecycle.engine import Shape, engine_of
from properties.property import Property, Subject
from properties.run import draw_cases

# the first ones are as small as can be
DRAWN: Final = 3


def one_a_shape(rule: Property, subject: Subject) -> tuple[Any, ...]:
    """In the order of SHAPES."""
    return tuple(_case(rule, subject, shape) for shape in SHAPES)


def _case(rule: Property, subject: Subject, shape: Shape) -> Any:
    engine: Any = engine_of(subject)
    # all that drawing asks of a subject
    narrow: Any = SimpleNamespace(runtime=SimpleNamespace(lifecycle=replace(engine, shapes=(shape,))))
    return draw_cases(rule, narrow, DRAWN, seed=1)[-1]
