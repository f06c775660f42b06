"""A failing case for people: the frozen line, the shrunk tape, the plan, and a command that runs it again."""

from __future__ import annotations

import shlex
from typing import Any

from conformance.record import Failure
from conformance.replay_blob import ReplayBlob
from conformance.subjects import SubjectSpec
from properties.case import ScheduleCase
from properties.codec import encode
from properties.property import Property
from properties.tape import show
from properties.violation import Violation


def frozen_line(property_id: str, violation: Violation, seed: int) -> str:
    """`vskipper FAIL property=… clause=… reason=… seed=… …`: programs read it, so its format does not change."""
    return f"vskipper FAIL property={property_id} {violation.line()} seed={seed}"


def failure(
    property: Property, spec: SubjectSpec, case: Any, violation: Violation, seed: int, fault: str | None = None
) -> Failure:
    """Everything a person needs, from the minimal failing case."""
    blob = ReplayBlob(property=property.id, spec=spec, case=encode(case), fault=fault, seed=seed)
    return Failure(
        line=frozen_line(property.id, violation, seed),
        tape=_tapes(case),
        plan=_plan(case),
        repro=f"vskipper replay {shlex.quote(blob.encode())}",
    )


def _tapes(case: Any) -> str:
    if not isinstance(case, ScheduleCase):
        return ""
    return "\n".join(show(tape) for tape in case.tapes)


def _plan(case: Any) -> str:
    if not isinstance(case, ScheduleCase):
        return repr(case)
    layout = case.layout
    head = f"page={layout.page_size} pages={layout.pages} kv={layout.kv_dtype or 'model'}"
    lines = [head]
    for number, step in enumerate(case.steps):
        chunks = " ".join(
            f"{chunk.request}:{chunk.phase}[{chunk.start}+{len(chunk.tokens)}]pages={','.join(map(str, chunk.pages))}"
            for chunk in step.chunks
        )
        lines.append(f"step {number}: rows={step.rows} padding={step.padding}/{step.fill} {chunks}")
    return "\n".join(lines)
