"""A case run on the runtime under test: sessions opened and closed, raw pools poisoned, results copied at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from properties.case import ScheduleCase
from properties.contexts import place_contexts
from properties.oracle import oracle_of
from properties.pool import Kv, fill_nan
from properties.property import Subject
from properties.runtime import Mode, Session, StepResult
from properties.transfer import copies
from properties.violation import Violation
from reference.plan import PoolLayout

Hook = Callable[[int, Session], None]
Fill = Callable[[Kv], None]
# of a StepResult, its cohorts aside
TENSORS = ("logits", "hidden", "actions", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One pass. kv: K and V of each layer for the valid rows as stored, copied just after the pass."""

    result: StepResult
    kv: tuple[tuple[Tensor, Tensor], ...]


@contextmanager
def opened(
    subject: Subject, layout: PoolLayout, mode: Mode = "routed", policy: Any = None, fill: Fill = fill_nan
) -> Iterator[Session]:
    """A session on a pool full of `fill`; the subject's policy unless another is given."""
    # before the runtime opens, so that the oracle's copies are of unspoilt tensors
    oracle_of(subject)
    own = subject.served_policy() if policy is None else policy
    session = subject.runtime.open(subject.model, own, layout, mode)
    try:
        fill(session.kv)
        yield session
    finally:
        session.close()


def run(
    subject: Subject,
    case: ScheduleCase,
    *,
    mode: Mode = "routed",
    policy: Any = None,
    forced: bool = True,
    fill: Fill = fill_nan,
    before: Hook | None = None,
    after: Hook | None = None,
    keep: list[StepResult] | None = None,
) -> tuple[Ran, ...]:
    """Every pass of the case in one fresh session; forced False lets the policy decide.

    before: called once contexts are in place; after: once the pass has run; both with the pass's number.
    keep: is given each result as the runtime returned it, not copied.
    """
    passes = []
    with opened(subject, case.layout, mode, policy, fill) as session:
        for number, plan in enumerate(case.steps):
            place_contexts(session.kv, case, case.layout, number)
            if before is not None:
                before(number, session)
            tape = case.tapes[number] if forced and mode == "routed" else None
            result = session.step(plan, tape)
            _check_own_memory(subject, number, result)
            if keep is not None:
                keep.append(result)
            result = copied(result)
            passes.append(Ran(result=result, kv=stored(session.kv, [row.slot for row in case.rows(number)])))
            if after is not None:
                after(number, session)
    return tuple(passes)


def _check_own_memory(subject: Subject, step: int, result: StepResult) -> None:
    """Outputs that lie in the oracle's memory would equal it whatever the runtime does."""
    for name, tensor in (("logits", result.logits), ("hidden", result.hidden)):
        if tensor is not None and oracle_of(subject).owns(tensor):
            raise Violation("SEM-1", "aliases_oracle", {"step": step, "what": name})


def stored(kv: Kv, slots: list[int]) -> tuple[tuple[Tensor, Tensor], ...]:
    """Copies of some slots of each layer, in that order, on the CPU."""
    parts = [part for pair in kv for part in pair]
    index = torch.tensor(slots, dtype=torch.int64).to(parts[0].device)
    found = copies([part[index] for part in parts], "cpu")
    return tuple(zip(found[::2], found[1::2], strict=True))


def copied(result: StepResult) -> StepResult:
    """The result with memory of its own, on the CPU: a later pass may not reach back into it."""
    names = [name for name in TENSORS if getattr(result, name) is not None]
    found = copies([*(getattr(result, name) for name in names), *(x for pair in result.cohorts for x in pair)], "cpu")
    own: dict[str, Any] = dict(zip(names, found, strict=False))
    cohorts = found[len(names) :]
    return replace(result, **own, cohorts=tuple(zip(cohorts[::2], cohorts[1::2], strict=True)))


def unscaled(ran: Ran, layout: PoolLayout, dtype: torch.dtype) -> tuple[tuple[Tensor, Tensor], ...]:
    """Stored K and V times their scales, in the dtype of the hidden states."""
    return tuple((k.to(dtype) * layout.k_scale, v.to(dtype) * layout.v_scale) for k, v in ran.kv)
