"""Everything the routed layers of one forward pass share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from vskipper.cohort import CohortPlan, empty_plan
from vskipper.execution.protocols import Attention
from vskipper.execution.work import WorkCounters
from vskipper.policy import RowBatch, SkipPolicy
from vskipper.tape import RouteTape


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPass:
    """valid: bool [rows], False for padding. positions: int64 [rows]. force_run: bool [rows] or None, rows of dense
    requests. plans: one cohort plan a routed layer. state: what the policy's begin() returned."""

    valid: Tensor
    positions: Tensor
    force_run: Tensor | None
    tape: RouteTape
    plans: tuple[CohortPlan, ...]
    work: WorkCounters
    attention: Attention
    state: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where a pass leaves what it did. actions: uint8 [routed layers, rows]. counts: int64 [routed layers, 4]."""

    actions: Tensor
    counts: Tensor


def open_pass(
    policy: SkipPolicy,
    layers: Sequence[int],
    rows: RowBatch,
    attention: Attention,
    *,
    force_run: Tensor | None = None,
    keep_weights: bool = False,
    evidence: Evidence | None = None,
) -> RoutedPass:
    """A pass of `policy` over `rows` at the routed `layers`, its buffers made anew on the rows' device but for
    `evidence`, where given. To the policy the rows of force_run are padding: it decides nothing for them, and what
    they hold is not its concern."""
    device = rows.valid.device
    actions, counts = (None, None) if evidence is None else (evidence.actions, evidence.counts)
    return RoutedPass(
        valid=rows.valid,
        positions=rows.positions,
        force_run=force_run,
        tape=RouteTape(layers, rows.rows, device, keep_weights=keep_weights, actions=actions),
        plans=tuple(empty_plan(rows.rows, device) for _ in layers),
        work=WorkCounters(len(layers), device, counts=counts),
        attention=attention,
        state=policy.begin(rows if force_run is None else hide(rows, force_run)),
    )


def hide(rows: RowBatch, hidden: Tensor) -> RowBatch:
    """The rows as the policy is shown them: those of `hidden`, bool [rows], are padding."""
    return RowBatch(
        request_keys=rows.request_keys.masked_fill(hidden, 0),
        positions=rows.positions.masked_fill(hidden, 0),
        token_ids=rows.token_ids.masked_fill(hidden, 0),
        phases=rows.phases.masked_fill(hidden, 0),
        valid=rows.valid & ~hidden,
    )
