"""A life of a few requests on a place's engine, of a shape and with decode graphs that the suite's own do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.subjects import build_subject
from gpu_tests.engine.places import Place
from properties.lifecycle.case import LifeCase
from properties.lifecycle.engine import History, Pass, Served, engine_of
from properties.lifecycle.play import Player, opened


def lived(
    place: Place, case: LifeCase, served: Served, *, graphs: tuple[int, ...] | None = None, stock: bool = False
) -> History:
    """graphs: batch sizes that are captured for decode; None: the suite's own. stock: SGLang's own model class. Skips
    the test where the place lacks something."""
    place.require()
    subject = build_subject(place.spec)
    engine: Any = engine_of(subject)
    if graphs is not None:
        engine = replace(engine, seat=replace(engine.seat, graphs=graphs))
    with opened(subject, case.shape, served, stock=stock, engine=engine) as session:
        return session.run(Player(session, case, subject.model.config.vocab_size))


def prefills(history: History) -> tuple[Pass, ...]:
    """Passes of more rows than requests."""
    return tuple(each for each in history.passes if len({row.request for row in each.rows}) < len(each.rows))


def decodes(history: History) -> tuple[Pass, ...]:
    """Passes in which every row is beyond its request's prompt."""
    return tuple(
        each
        for each in history.passes
        if all(row.position >= len(history.requests[row.request].prompt) for row in each.rows)
    )
