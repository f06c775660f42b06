"""Policies that keep or change state where a look at their attributes does not find it: each seen for its reason."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from properties.case import RowsCase
from properties.registry import by_id
from properties.row_batch import row_batch
from properties.run import run_property
from tests.properties.test_detects_policy import Spoilt
from tests.properties.tiny_subject import subject_of
from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.policy import Route, RowBatch
from vskipper.validate.checked import same_bits
from vskipper.validate.shared import find_written_tensors

KEPT: list[object] = []
STEP = 0


class Stats:
    passes: ClassVar[dict[str, int]] = {"all": 0}


class KeepsInItsModule(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        KEPT.append(batch)
        return batch


class CountsInItsModule(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        global STEP
        STEP += 1
        return batch


class CountsInAnotherClass(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        Stats.passes["all"] += 1
        return batch


def _counting(hook: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0

    def counted(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return hook(self, *arguments)

    return counted


class CountsInAClosure(Spoilt):
    begin = _counting(Spoilt.begin)


class CountsInADefault(Spoilt):
    def begin(self, batch: RowBatch, calls: list[int] = []) -> Any:  # noqa: B006
        calls.append(len(calls))
        return batch


class Reseeds(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.manual_seed(0)
        torch.rand(3)
        return batch


class ReseedsPython(Spoilt):
    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        random.seed(layer)
        return super().route(layer, x, state)


class ReseedsNumpy(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        np.random.seed(1)
        return batch


class TurnsGradOn(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.set_grad_enabled(True)
        return batch


class TurnsGradOff(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.set_grad_enabled(False)
        return batch


class DefaultsToDoubles(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.set_default_dtype(torch.float64)
        return batch


class DefaultsToAnotherDevice(Spoilt):
    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        projected = super().project(layer, y, state)
        torch.set_default_device("meta")
        return projected


class OneThread(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.set_num_threads(1)
        return batch


class OnlyDeterministic(Spoilt):
    def begin(self, batch: RowBatch) -> Any:
        torch.use_deterministic_algorithms(True)
        return batch


CASES = [
    (KeepsInItsModule, "python_state_changes", "KEPT["),
    (CountsInItsModule, "python_state_changes", "STEP: "),
    (CountsInAnotherClass, "python_state_changes", "Stats.passes['all']"),
    (CountsInAClosure, "python_state_changes", "begin.calls: "),
    (CountsInADefault, "python_state_changes", "begin(default 0)["),
    (Reseeds, "process_state_changes", "torch's random numbers"),
    (ReseedsPython, "process_state_changes", "Python's random numbers"),
    (ReseedsNumpy, "process_state_changes", "numpy's random numbers"),
    (TurnsGradOn, "process_state_changes", "grad mode: False became True"),
    (TurnsGradOff, "process_state_changes", "grad mode: True became False"),
    (DefaultsToDoubles, "process_state_changes", "default dtype: torch.float32 became torch.float64"),
    (DefaultsToAnotherDevice, "process_state_changes", "default device: cpu became meta"),
    (OneThread, "process_state_changes", "number of threads: 2 became 1"),
    (OnlyDeterministic, "process_state_changes", "deterministic algorithms: False became True"),
]


@pytest.fixture(autouse=True)
def _kept_module() -> Any:
    threads = torch.get_num_threads()
    yield
    KEPT.clear()
    # what the policies do before and beside the watch stays
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("policy", "reason", "got"), CASES, ids=[case[0].__name__ for case in CASES])
def test_state_that_changes_is_named(policy: Any, reason: str, got: str) -> None:
    outcome = run_property(by_id("policy.on_device"), subject_of(spoil=policy), examples=3, seed=0)
    assert outcome.violation is not None, outcome
    assert (outcome.violation.clause, outcome.violation.reason) == ("POL-2", reason), outcome.violation
    assert got in str(outcome.violation.facts["got"])
    assert "test_detects_policy_state.py:" in str(outcome.violation.facts["location"])


@cache
def _codes(rows: int) -> Tensor:
    return torch.full((rows,), int(Action.RUN), dtype=torch.uint8)


TABLES: dict[int, Tensor] = {}


class Lawful(Spoilt):
    """Fills caches once, draws random numbers, counts on the device, and changes a mode for itself alone."""

    def begin(self, batch: RowBatch) -> Any:
        TABLES.setdefault(batch.rows, torch.arange(batch.rows))
        torch.rand(2)
        with torch.no_grad():
            return batch

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        return replace(super().route(layer, x, state), actions=_codes(x.shape[0]))


def test_caches_that_are_filled_once_and_draws_are_allowed() -> None:
    outcome = run_property(by_id("policy.on_device"), subject_of(spoil=Lawful), examples=10, seed=0)
    assert outcome.status == "passed", outcome


def test_the_process_is_left_as_it_was() -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state(), random.getstate(), torch.get_num_threads(), torch.is_grad_enabled()
    rule, subject = by_id("policy.on_device"), subject_of(spoil=Spoilt)
    rule.check(subject, _one_case())
    after = torch.get_rng_state(), random.getstate(), torch.get_num_threads(), torch.is_grad_enabled()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


def _one_case() -> RowsCase:
    return RowsCase(lengths=(2,), starts=(5,), decodes=(False,), order=(1, 0), padding=1)


class Alternates(Spoilt):
    """Counts its passes on the device."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.passes = torch.zeros((), dtype=torch.int64)

    def begin(self, batch: RowBatch) -> Any:
        self.passes += 1
        return batch

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = super().route(layer, x, state)
        return replace(route, actions=route.actions.fill_(int(Action.RUN)) * (self.passes % 2).to(torch.uint8))


def test_a_counter_on_the_device_that_alternates_is_not_deterministic() -> None:
    for examples in (1, 2, 40):
        outcome = run_property(by_id("policy.deterministic"), subject_of(spoil=Alternates), examples=examples, seed=0)
        assert outcome.violation is not None and outcome.violation.reason == "not_deterministic", outcome


def test_a_write_into_the_tensors_that_it_was_built_with_is_named_and_undone() -> None:
    built = subject_of()
    own = {name: tensor.clone() for name, tensor in built.given.items()}
    assert own

    class Drifts(Spoilt):
        def route(self, layer: int, x: Tensor, state: Any) -> Route:
            name = f"model.layers.{layer}.router.router_norm.weight"
            built.given[name].mul_(1.25)
            return super().route(layer, x, state)

    batch = row_batch(["a", "b"], [0, 3], [5, 6], [False, False])
    x = torch.ones(2, built.model.config.hidden_size)
    with pytest.raises(PolicyError, match=r"hook route: writes into the tensors it was built with.*router_norm"):
        find_written_tensors(Drifts(built.make_policy(torch.float32)), batch, x, built.model.routed_layers, built.given)
    assert all(same_bits(tensor, own[name]) for name, tensor in built.given.items())


class WritesTheRows(Spoilt):
    """Shifts the positions that the runtime handed to begin, later on."""

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        state.positions.add_(1)
        return super().route(layer, x, state)


class DriftsAndReturns(Spoilt):
    """Writes into the model's tensors and takes it back when the pass ends."""

    weight: Tensor = subject_of().given["model.layers.3.router.router_norm.weight"]

    def begin(self, batch: RowBatch) -> Any:
        self.weight.abs_().neg_()
        return batch

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        self.weight.abs_()
        return super().project(layer, y, state)


def test_what_is_written_into_given_tensors_fails_the_property() -> None:
    own = DriftsAndReturns.weight.clone()
    outcome = run_property(by_id("policy.on_device"), subject_of(spoil=DriftsAndReturns), examples=1, seed=0)
    DriftsAndReturns.weight.copy_(own)
    assert outcome.violation is not None
    assert (outcome.violation.clause, outcome.violation.reason) == ("POL-1", "given_tensors_written")


def test_a_write_into_the_rows_of_the_pass_is_seen_in_a_later_hook() -> None:
    outcome = run_property(by_id("policy.declared"), subject_of(spoil=WritesTheRows), examples=10, seed=0)
    assert outcome.violation is not None and outcome.violation.reason == "input_written"
    assert outcome.violation.facts["hook"] == "route"
