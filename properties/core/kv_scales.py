"""KV-4: KV scales that are powers of two change no bit of anything, whichever cohort wrote and whichever read."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.batch import bounds_of, schedules
from properties.bits import bits
from properties.case import ScheduleCase
from properties.compare import differing
from properties.drive import Ran, run
from properties.facts import place, rows_with
from properties.property import Property, Subject
from properties.violation import Violation
from reference.plan import PoolLayout
from vskipper.action import Action

# with an exponent this wide, a few powers of two move no value into subnormals
WIDE_DTYPES = (torch.float32, torch.bfloat16)


@st.composite
def scaled_cases(draw: DrawFn, subject: Subject) -> ScheduleCase:
    """One of the scales, at least, is not 1."""
    k_scale, v_scale = draw(st.sampled_from(((2.0, 2.0), (0.25, 1.0), (1.0, 8.0), (0.5, 4.0))))
    layout = PoolLayout(
        page_size=1, pages=1, kv_dtype=draw(st.sampled_from(_wide(subject))), k_scale=k_scale, v_scale=v_scale
    )
    bounds = bounds_of(subject.model, subject.runtime.capabilities)
    return draw(schedules(replace(bounds, steps=2), layout))


def _wide(subject: Subject) -> list[str | None]:
    """What the runtime may keep K and V in; None is the model's own dtype."""
    found = subject.runtime.capabilities.kv_dtypes
    return [name for name in found if (getattr(torch, name) if name else subject.model.dtype) in WIDE_DTYPES]


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return scaled_cases(subject)


def check(subject: Subject, case: ScheduleCase) -> None:
    plain = run(subject, replace(case, layout=replace(case.layout, k_scale=1.0, v_scale=1.0)))
    for step, (scaled, one) in enumerate(zip(run(subject, case), plain, strict=True)):
        _check_dtypes(subject, case, scaled)
        for layer in range(len(scaled.kv)):
            _check_read(subject, case, step, layer, scaled, one)
            _check_stored(subject, case, step, layer, scaled, one)
        _check_read(subject, case, step, len(scaled.kv), scaled, one)
        found = differing(scaled.result.logits, one.result.logits)
        if found is not None:
            raise Violation("KV-4", "scale_not_read", {"step": step, "what": "logits"} | found.facts())
        finite = all(bool(torch.isfinite(part.float()).all()) for pair in one.kv for part in pair)
        subject.seen["scaled_entries"] += case.steps[step].rows * len(scaled.kv) if finite else 0
        subject.seen["project_entries"] += rows_with(case, step, Action.PROJECT_ONLY)


def _check_dtypes(subject: Subject, case: ScheduleCase, ran: Ran) -> None:
    expected = getattr(torch, case.layout.kv_dtype) if case.layout.kv_dtype else subject.model.dtype
    for layer, pair in enumerate(ran.kv):
        for part, tensor in zip("kv", pair, strict=True):
            if tensor.dtype != expected:
                facts = {"layer": layer, "part": part, "got": tensor.dtype, "expected": expected}
                raise Violation("KV-4", "kv_dtype_differs", facts)


def _check_read(subject: Subject, case: ScheduleCase, step: int, layer: int, scaled: Ran, one: Ran) -> None:
    """The stream entering `layer` is the same, so everything before it read the scaled pool rightly."""
    if scaled.result.hidden is None or one.result.hidden is None:
        return
    found = differing(scaled.result.hidden[layer], one.result.hidden[layer])
    if found is not None:
        facts = place(subject, case, step, found.index[0], layer - 1)
        raise Violation("KV-4", "scale_not_read", facts | {"what": "hidden"} | found.facts())


def _check_stored(subject: Subject, case: ScheduleCase, step: int, layer: int, scaled: Ran, one: Ran) -> None:
    scales = (case.layout.k_scale, case.layout.v_scale)
    for part, name in enumerate("kv"):
        got, expected = scaled.kv[layer][part], one.kv[layer][part]
        found = differing(got.to(torch.float32) * scales[part], expected.to(torch.float32))
        if found is not None:
            row = found.index[0]
            as_if_one = bool((bits(got[row]) == bits(expected[row])).all())
            reason = "scale_not_applied" if as_if_one else "scale_misapplied"
            facts = place(subject, case, step, row, layer) | {"part": name, "scale": scales[part]}
            raise Violation("KV-4", reason, facts | found.facts())


def _lacks(subject: Subject) -> str | None:
    if not subject.runtime.capabilities.kv_scales:
        return "kv_scales"
    return None if _wide(subject) else "a wide dtype of K and V"


KV_SCALES = Property(
    id="kv.scales",
    clause="KV-4",
    title="power-of-two KV scales are neutral, bit for bit, for every cohort",
    cases=cases,
    check=check,
    counters=("scaled_entries", "project_entries"),
    examples=40,
    unsupported=_lacks,
)
