"""Decode batches that no graph covers, on the real scheduler: their rows run dense, are told of, and stay dense."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest

from conformance.runtimes.sglang.scheduler.engine import SchedulerEngine
from conformance.subjects import SubjectSpec, build_subject
from properties.lifecycle.cache import CACHE_SHARED
from properties.lifecycle.life_alone import LIFE_ALONE
from properties.lifecycle.mode_fixed import MODE_FIXED, RECOMPUTED
from properties.property import Property, Subject
from properties.run import run_property
from tests.engine import needs_sglang
from vskipper.sglang.decoder import RoutedDecoder
from vskipper.sglang.request import RequestState

MOST = 2


class SmallGraphs(SchedulerEngine):
    """As an engine whose largest graph is of MOST rows."""

    def covers(self, rows: int) -> bool:
        return rows <= MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The subject's, with that engine."""

    of: Any

    @property
    def lifecycle(self) -> SchedulerEngine:
        return SmallGraphs()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)


def _covers(self: RoutedDecoder, plan: Any, forward_batch: Any) -> bool:
    return not forward_batch.forward_mode.is_decode() or forward_batch.batch_size <= MOST


@contextmanager
def small_graphs() -> Iterator[Subject]:
    subject = build_subject(SubjectSpec(runtime="sglang", model="tiny-llama"))
    with mock.patch.object(RoutedDecoder, "covers", _covers):
        yield replace(subject, runtime=Runtime(of=subject.runtime))


@needs_sglang
@pytest.mark.parametrize("rule", [MODE_FIXED, LIFE_ALONE, CACHE_SHARED], ids=lambda rule: rule.id)
def test_holds(rule: Property) -> None:
    with small_graphs() as subject:
        outcome = run_property(rule, subject, examples=8, seed=1)
    assert outcome.violation is None, outcome.detail


@needs_sglang
def test_a_row_that_is_routed_when_it_is_computed_again_is_seen() -> None:
    with small_graphs() as subject, mock.patch.object(RequestState, "fall", lambda *_, **__: None):
        outcome = run_property(MODE_FIXED, subject, examples=24, seed=1)
    assert outcome.violation is not None and outcome.violation.reason == RECOMPUTED
