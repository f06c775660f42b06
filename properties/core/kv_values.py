"""KV-3: what a row leaves in the pool is its own layer's K and V of its own hidden state at its own position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from properties.batch import bounds_of, schedules
from properties.case import ScheduleCase
from properties.compare import Envelope, outside, row_errors
from properties.drive import run, unscaled
from properties.facts import place, rows_with
from properties.oracle import Pass, oracle_of
from properties.property import Property, Subject
from properties.violation import Violation
from reference.plan import PoolLayout
from reference.rope import inverse_frequencies, rotate
from vskipper.action import Action

Pair = tuple[Tensor, Tensor]


@st.composite
def cases_with_dtypes(draw: DrawFn, subject: Subject) -> ScheduleCase:
    """Mostly the pool's plain form; else another dtype or power-of-two scales."""
    kv_dtype = draw(st.sampled_from(subject.runtime.capabilities.kv_dtypes))
    scales = st.sampled_from((1.0, 0.5, 4.0) if subject.runtime.capabilities.kv_scales else (1.0,))
    layout = PoolLayout(page_size=1, pages=1, kv_dtype=kv_dtype, k_scale=draw(scales), v_scale=draw(scales))
    return draw(schedules(bounds_of(subject.model, subject.runtime.capabilities), layout))


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return cases_with_dtypes(subject)


def check(subject: Subject, case: ScheduleCase) -> None:
    answer = oracle_of(subject).answer(case)
    for step, ran in enumerate(run(subject, case)):
        stored = unscaled(ran, case.layout, subject.model.dtype)
        check_kv(subject, case, step, stored, answer.truth[step], answer.same[step])
        subject.seen["run_entries"] += rows_with(case, step, Action.RUN)
        subject.seen["project_entries"] += rows_with(case, step, Action.PROJECT_ONLY)


def check_kv(
    subject: Subject, case: ScheduleCase, step: int, stored: tuple[Pair, ...], truth: Pass, same: Pass
) -> None:
    """Every layer's K and V [rows, kv heads, head dim] of one pass against the oracle; raises Violation."""
    rule = Envelope.of_layers(len(stored))
    for layer, pair in enumerate(stored):
        for part, name in enumerate("kv"):
            found = outside(pair[part], same.kv[layer][part], truth.kv[layer][part], rule)
            if found is not None:
                row, facts = found
                bounds = tuple(rule.bound(same.kv[layer][i], truth.kv[layer][i]) for i in range(2))
                entry = _Entry(layer=layer, row=row, position=case.rows(step)[row].position, pair=pair, bounds=bounds)
                reason, cause = _explain(subject, entry, truth)
                raise Violation("KV-3", reason, place(subject, case, step, row, layer) | {"part": name} | facts | cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One row's stored K and V that are not what they should be. bounds: what is allowed for K and for V."""

    layer: int
    row: int
    position: int
    pair: Pair
    bounds: tuple[float, ...]

    def is_like(self, part: int, truth: Tensor) -> bool:
        """Whether K (0) or V (1) of the row is `truth` [kv heads, head dim], within the bound."""
        return float(row_errors(self.pair[part][self.row][None], truth[None])) <= self.bounds[part]


def _explain(subject: Subject, entry: _Entry, truth: Pass) -> tuple[str, dict[str, object]]:
    """Which other place the stored values belong to: another row, another layer, another position, or none."""
    for reason, name, number, pair in _elsewhere(entry, truth):
        if entry.is_like(0, pair[0]) and entry.is_like(1, pair[1]):
            return reason, {name: number}
    own_k, own_v = (part[entry.row] for part in truth.kv[entry.layer])
    if entry.is_like(1, own_v):
        frequencies = inverse_frequencies(subject.model.config, own_k.dtype)
        for position in range(entry.position + 2 + len(truth.kv[0][0])):
            # K turned on from its own position is K at another one
            if position != entry.position and entry.is_like(0, rotate(own_k, position - entry.position, frequencies)):
                return "wrong_position", {"stored_position": position}
    return "wrong_value", {}


def _elsewhere(entry: _Entry, truth: Pass) -> Iterator[tuple[str, str, int, Pair]]:
    keys, values = truth.kv[entry.layer]
    for row in range(len(keys)):
        if row != entry.row:
            yield "wrong_row", "stored_row", row, (keys[row], values[row])
    for layer, (keys, values) in enumerate(truth.kv):
        if layer != entry.layer:
            yield "wrong_layer", "stored_layer", layer, (keys[entry.row], values[entry.row])


KV_OWN_LAYER = Property(
    id="kv.own_layer",
    clause="KV-3",
    title="stored K and V equal the oracle's for that row, position and layer",
    cases=cases,
    check=check,
    counters=("run_entries", "project_entries"),
    compares="margin",
    examples=60,
)
