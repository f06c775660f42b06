"""A graph case run: contexts placed, each pass done as asked, results copied unless a property keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

import torch
from torch import Tensor

from properties.compare import differing
from properties.drive import Ran, copied, stored
from properties.graph.case import GraphCase
from properties.graph.engine import GraphEngine, GraphSession, Variant, Way
from properties.oracle import oracle_of
from properties.pool import Kv, fill_nan
from properties.property import Subject
from properties.runtime import LayerWork, StepResult
from properties.violation import Violation
from reference.action import attention_runs, mlp_runs
from vskipper.policy import SkipPolicy


def engine_of(subject: Subject) -> GraphEngine:
    """The graphs of the subject's runtime, which has some."""
    engine: GraphEngine = subject.runtime.graphs  # type: ignore[attr-defined]
    return engine


def empty(kv: Kv, page_size: int) -> None:
    """NaN in every slot but the dummy page's: a captured graph pads with it, and the engine's own holds finite numbers
    there."""
    fill_nan(kv)
    for tensor in (part for pair in kv for part in pair):
        tensor[:page_size] = 0.0


@contextmanager
def opened_graphs(
    subject: Subject,
    case: GraphCase,
    *,
    forced: bool = True,
    slots: int | None = None,
    policy: SkipPolicy | None = None,
) -> Iterator[GraphSession]:
    """A session on a pool full of NaN, page 0 aside; slots as in GraphEngine.open. policy: another one than the
    subject's, whose routes are taken."""
    oracle_of(subject)
    engine = engine_of(subject)
    page_size = case.schedule.layout.page_size
    chosen = subject.served_policy() if policy is None else policy
    session = engine.open(subject.model, chosen, page_size, forced=forced and policy is None, slots=slots)
    try:
        empty(session.kv, page_size)
        session.fill_padding("zero")
        yield session
    finally:
        session.close()


def decoded(session: GraphSession, case: GraphCase, step: int, way: Way = "replay", *, forced: bool = True) -> Ran:
    """Pass `step` in its variant, and what it stored."""
    result = raw_decode(session, case, step, way, forced=forced)
    slots = [row.slot for row in case.schedule.rows(step)]
    return Ran(result=copied(result), kv=stored(session.kv, slots))


def raw_decode(session: GraphSession, case: GraphCase, step: int, way: Way, *, forced: bool = True) -> StepResult:
    """The pass's result as the session returns it."""
    variant: Variant = "dense" if case.dense[step] else "routed"
    tape = case.schedule.tapes[step] if forced and variant == "routed" else None
    return session.decode(case.schedule.steps[step], tape, variant=variant, way=way)


def check_equal(clause: str, reason: str, step: int, got: Ran, expected: Ran) -> None:
    """Bit for bit: outputs, streams, routes, counts, maps, and K and V of the valid rows. Raises Violation."""
    for name, one, other in (*_pairs(got.result, expected.result), *kv_pairs(got.kv, expected.kv)):
        found = differing(one, other)
        if found is not None:
            raise Violation(clause, reason, {"step": step, "what": name} | found.facts())


def work_of(line: Sequence[int]) -> LayerWork:
    """What actions of a layer's rows come to."""
    projects = sum(not (mlp_runs(action) or attention_runs(action)) for action in line)
    return LayerWork(
        attention=sum(map(attention_runs, line)), mlp=sum(map(mlp_runs, line)), projector=projects, kv_rows=len(line)
    )


def _pairs(got: StepResult, expected: StepResult) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name in ("logits", "hidden", "actions", "weights"):
        one, other = getattr(got, name), getattr(expected, name)
        if (one is None) != (other is None):
            raise ValueError(f"{name}: got {one}, expected {other}")
        if one is not None:
            yield name, one, other
    yield "work", _counts(got.work), _counts(expected.work)
    for layer, ((rows, offsets), (other_rows, other_offsets)) in enumerate(
        zip(got.cohorts, expected.cohorts, strict=True)
    ):
        yield f"offsets[{layer}]", offsets, other_offsets
        # past the last offset nothing is written
        yield f"cohorts[{layer}]", rows[: int(offsets[-1])], other_rows[: int(other_offsets[-1])]


def _counts(work: tuple[LayerWork, ...]) -> Tensor:
    return torch.tensor([[getattr(each, field.name) for field in fields(LayerWork)] for each in work])


def kv_pairs(got: Kv, expected: Kv) -> Iterator[tuple[str, Tensor, Tensor]]:
    """K and V of each layer, by name."""
    for layer, pairs in enumerate(zip(got, expected, strict=True)):
        for part, name in enumerate("kv"):
            yield f"{name}[{layer}]", pairs[0][part], pairs[1][part]
