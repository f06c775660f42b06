"""A policy alone: rows without a model, what each is asked, and what it answered wherever the row stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from properties.batch import token
from properties.case import RowsCase
from properties.property import Subject
from properties.row_batch import row_batch
from properties.values import hidden_values
from vskipper.execution.routed_pass import hide
from vskipper.policy import Route, RowBatch
from vskipper.validate.checked import CheckedPolicy

# how close w may lie to the threshold before rounding may turn it: in units of the dtype's epsilon
TIE = 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one row was told at one routed layer. w: None in gate mode hard."""

    action: int
    w: float | None


Decisions = Mapping[tuple[int, int], Decision]


def place_of(case: RowsCase, row: int) -> tuple[int, int]:
    """Request and position of a row; rows are numbered request by request."""
    for request, length in enumerate(case.lengths):
        if row < length:
            return request, case.starts[request] + row
        row -= length
    raise IndexError(f"row {row} beyond the case's rows")


def batch_of_rows(
    subject: Subject,
    case: RowsCase,
    rows: Sequence[int],
    padding: int = 0,
    *,
    rename: str = "",
    decodes: Sequence[bool] | None = None,
) -> RowBatch:
    """A pass of some rows of the case. rename: put before every request's name. decodes: in place of the case's."""
    places = [place_of(case, row) for row in rows]
    phases = case.decodes if decodes is None else decodes
    return row_batch(
        [f"{rename}r{request}-{case.seed}" for request, _ in places],
        [position for _, position in places],
        [token(case.seed, request, position, subject.model.config.vocab_size) for request, position in places],
        [phases[request] for request, _ in places],
        padding,
    )


def streams(subject: Subject, case: RowsCase, layer: int, rows: Sequence[int], padding: int = 0) -> Tensor:
    """x [rows + padding, hidden] at one layer: a row's own values wherever it stands, NaN in padding."""
    hidden, dtype = subject.model.config.hidden_size, subject.model.dtype
    x = torch.full((len(rows) + padding, hidden), torch.nan, dtype=dtype)
    for index, row in enumerate(rows):
        request, position = place_of(case, row)
        seed = (((case.seed * 16 + request) << 20) + position) * 512 + layer
        x[index] = _stream(seed, hidden).to(dtype)
    return x


@lru_cache(maxsize=8192)
def _stream(seed: int, hidden: int) -> Tensor:
    """One row's, which many passes of one case ask for."""
    return hidden_values(seed, hidden)


def ask(
    policy: Any,
    subject: Subject,
    case: RowsCase,
    rows: Sequence[int],
    padding: int,
    *,
    dense: frozenset[int] = frozenset(),
    **changed: Any,
) -> Decisions:
    """One pass of `rows` through every routed layer; the decision of each (layer, row) but for the rows `dense`, which
    are those of dense requests. Raises PolicyError for whatever a hook raises or gets wrong."""
    policy = CheckedPolicy(policy, subject.policy_name)
    batch = batch_of_rows(subject, case, rows, padding, **changed)
    if dense:
        batch = hide(batch, torch.tensor([row in dense for row in rows] + [False] * padding))
    state = policy.begin(batch)
    found: dict[tuple[int, int], Decision] = {}
    for layer in subject.model.routed_layers:
        x = streams(subject, case, layer, rows, padding)
        route: Route = policy.route(layer, x, state)
        second = getattr(policy, "route_mlp", None)
        if second is not None:
            route = second(layer, x, state)
        for index, row in enumerate(rows):
            if row in dense:
                continue
            w = None if route.weights is None else float(route.weights[index])
            found[layer, row] = Decision(action=int(route.actions[index]), w=w)
    return found


def first_change(
    one: Decisions, two: Decisions, dtype: torch.dtype, *, exact: bool = False
) -> dict[str, object] | None:
    """Where two answers for the same rows differ. Unless exact, weights may differ by rounding, and actions where both
    weights lie that near the threshold."""
    slack = 0.0 if exact else TIE * torch.finfo(dtype).eps
    for (layer, row), got in two.items():
        expected = one[layer, row]
        facts: dict[str, object] = {"layer": layer, "row": row, "got": got.action, "expected": expected.action}
        if (got.w is None) != (expected.w is None):
            return facts | {"got_w": got.w, "expected_w": expected.w}
        if got.w is not None and expected.w is not None:
            if not abs(got.w - expected.w) <= slack:
                return facts | {"got_w": got.w, "expected_w": expected.w}
            if abs(got.w - 0.5) <= slack and abs(expected.w - 0.5) <= slack and not exact:
                continue
        if got.action != expected.action:
            return facts
    return None
