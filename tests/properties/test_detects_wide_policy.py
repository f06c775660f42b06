"""Policies that go wrong in wide passes, with many requests or far from the beginning: each seen for its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from properties.case import RowsCase
from properties.codec import decode, encode
from properties.property import Subject
from properties.registry import by_id
from properties.run import run_property, violation_of
from tests.properties.test_detects_policy import Spoilt
from tests.properties.tiny_subject import subject_of
from vskipper.action import Action
from vskipper.policy import Route, RowBatch

SKIP = int(Action.PROJECT_ONLY)


class Routed(Spoilt):
    """Skips the rows that `skipped` names, on top of FlexiDepth's."""

    def skipped(self, batch: RowBatch) -> Tensor:
        raise NotImplementedError

    def begin(self, batch: RowBatch) -> Any:
        return self.skipped(batch)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=route.actions.masked_fill(state, SKIP))


class OverSixteenRows(Routed):
    def skipped(self, batch: RowBatch) -> Tensor:
        return torch.full_like(batch.valid, batch.rows > 16)


class FirstSixteenth(Routed):
    def skipped(self, batch: RowBatch) -> Tensor:
        return torch.arange(batch.rows) < batch.rows // 16


class OverFourRequests(Routed):
    def skipped(self, batch: RowBatch) -> Tensor:
        keys = batch.request_keys.sort().values
        return batch.valid & ((keys[1:] != keys[:-1]).sum() >= 4)


class ShortTable(Routed):
    """Knows 1024 positions."""

    def skipped(self, batch: RowBatch) -> Tensor:
        return (torch.arange(1024) % 2 == 0)[batch.positions]


class NoNumberFarAway(Routed):
    def skipped(self, batch: RowBatch) -> Tensor:
        return batch.positions >= 2048

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        assert route.weights is not None
        return replace(route, weights=route.weights.masked_fill(state, torch.nan))


class MeanOfSixteen(Spoilt):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        projected = super().project(layer, y, state)
        return projected + y.mean(0) if y.shape[0] > 16 else projected


class SpoiltByDenseRows(Routed):
    """Takes rows that run dense for the end of the batch."""

    def skipped(self, batch: RowBatch) -> Tensor:
        return batch.valid.cummin(0).values


CASES = [
    ("policy.batch_invariant", OverSixteenRows, "depends_on_batch"),
    ("policy.chunk_invariant", OverSixteenRows, "depends_on_chunk"),
    ("policy.batch_invariant", FirstSixteenth, "depends_on_batch"),
    ("policy.batch_invariant", OverFourRequests, "depends_on_batch"),
    ("policy.batch_invariant", SpoiltByDenseRows, "depends_on_batch"),
    ("policy.declared", ShortTable, "hook_raised"),
    ("policy.declared", NoNumberFarAway, "wrong_weights"),
    ("policy.declared", MeanOfSixteen, "projector_depends_on_batch"),
]


def long_subject(policy: Any) -> Subject:
    """On a model of 8192 positions."""
    subject = subject_of(spoil=policy)
    config = replace(subject.model.config, max_position_embeddings=8192)
    return replace(subject, model=replace(subject.model, config=config))


@pytest.mark.parametrize(("rule", "policy", "reason"), CASES, ids=[f"{c[0]}-{c[1].__name__}" for c in CASES])
def test_seen_for_its_reason(rule: str, policy: Any, reason: str) -> None:
    subject = long_subject(policy)
    outcome = run_property(by_id(rule), subject, examples=40, seed=0)
    assert outcome.violation is not None, outcome
    assert (outcome.status, outcome.violation.reason) == ("failed", reason), outcome.violation
    again = violation_of(by_id(rule), subject, decode(encode(outcome.case)))
    assert again is not None and again[0].reason == reason


def test_a_wide_case_shrinks_to_the_least_rows_that_fail() -> None:
    outcome = run_property(by_id("policy.batch_invariant"), long_subject(OverSixteenRows), examples=40, seed=0)
    assert isinstance(outcome.case, RowsCase)
    assert outcome.case.rows == 17
    assert outcome.case.padding == 0


@pytest.mark.parametrize("limit", [3, 64, 131072])
def test_positions_are_those_that_the_model_has(limit: int) -> None:
    subject = long_subject(Spoilt)
    config = replace(subject.model.config, max_position_embeddings=limit)
    subject = replace(subject, model=replace(subject.model, config=config))
    seen: list[int] = []

    def note(subject: Subject, case: RowsCase) -> None:
        ends = [start + length for start, length in zip(case.starts, case.lengths, strict=True)]
        seen.append(max(ends))
        subject.seen["decisions"] += 1

    rule = replace(by_id("policy.declared"), check=note, counters=("decisions",))
    run_property(rule, subject, examples=60, seed=0)
    assert max(seen) == limit
