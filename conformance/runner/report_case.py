"""A failing case for people: the frozen line, the shrunk tape, the plan, and a command that runs it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from conformance.certificate.record import Failure
from conformance.replay_blob import ReplayBlob
from conformance.subjects import SubjectSpec, build_subject
from properties.case import ScheduleCase
from properties.codec import encode
from properties.drive import run
from properties.property import Property, Subject
from properties.tape import show
from properties.violation import Violation
from reference.plan import TapePlan


def frozen_line(property_id: str, violation: Violation, seed: int) -> str:
    """`vskipper FAIL property=… clause=… reason=… seed=… …`: programs read it, so its format does not change."""
    return f"vskipper FAIL property={property_id} {violation.line()} seed={seed}"


def failure(
    property: Property,
    spec: SubjectSpec,
    case: Any,
    violation: Violation,
    seed: int,
    fault: str | None = None,
) -> Failure:
    """Everything a person needs, from the minimal failing case."""
    subject, schedule = build_subject(spec), _schedule(case)
    blob = ReplayBlob(property=property.id, spec=spec, case=encode(case), fault=fault, seed=seed)
    return Failure(
        line=frozen_line(property.id, violation, seed),
        tape="" if schedule is None else "\n".join(_tapes(property, subject, schedule, violation)),
        plan=repr(case) if schedule is None else "\n".join(_plan(schedule)),
        repro=f"vskipper replay {shlex.quote(blob.encode())}",
    )


def _schedule(case: Any) -> ScheduleCase | None:
    """The passes of a case, however a property wraps them."""
    found = getattr(case, "schedule", case)
    return found if isinstance(found, ScheduleCase) else None


def _tapes(property: Property, subject: Subject, case: ScheduleCase, violation: Violation) -> Iterator[str]:
    """One line a pass: the forced routes, or those that the policy took."""
    tapes = case.tapes
    if property.own_routes and not violation.reason.startswith("crash:"):
        passes = run(subject, case, forced=False)
        tapes = tuple(TapePlan(actions=tuple(map(tuple, ran.result.actions.tolist()))) for ran in passes)
    for tape in tapes:
        yield show(tape, subject.model.routed_layers)


def _plan(case: ScheduleCase) -> Iterator[str]:
    layout = case.layout
    yield f"page={layout.page_size} pages={layout.pages} kv={layout.kv_dtype or 'model'}"
    for number, step in enumerate(case.steps):
        chunks = " ".join(
            f"{chunk.request}:{chunk.phase}[{chunk.start}+{len(chunk.tokens)}]pages={','.join(map(str, chunk.pages))}"
            for chunk in step.chunks
        )
        yield f"step {number}: rows={step.rows} padding={step.padding}/{step.fill} {chunks}"
