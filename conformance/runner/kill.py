"""One fault against every property: the cases are drawn once, the checks are looped while the fault is in force."""

from __future__ import annotations

from functools import cache
from typing import Any

from conformance.certificate.record import QUIET, UNSUPPORTED, Kill
from conformance.faults.fault import Fault
from conformance.must_pass import place_on
from conformance.request import CertifyRequest
from conformance.runtime_names import device_of
from conformance.subjects import SubjectSpec, build_subject
from properties.property import Property, Subject
from properties.registry import LEVEL_OF, PROPERTIES, by_id
from properties.run import draw_cases, first_violation

SEED = 0
# of a round. A version of Hypothesis, or a constant in a source, draws other cases: a fault is killed if one case of
# several rounds shows it for its reason
KILLER_CASES = 24
ROUNDS = 3
OTHER_CASES = 3
# runtime, model, dtype, attention backend
Where = tuple[str, str, str, str | None]


def run_fault(fault: Fault, request: CertifyRequest | None = None) -> Kill:
    """The fault's line of the kill matrix, over the properties it is held against. request: says where; None for the
    fault's own place."""
    place = _place(fault, request)
    subject = _subject(*place)
    properties = [property for property in PROPERTIES[LEVEL_OF[fault.killer]] if fault.meets(property.id)]
    drawn = {each.id: _cases(each.id, 0, *place)[: _count(each, fault)] for each in properties}
    with fault.active():
        outcomes = {each.id: _outcome(each, subject, drawn[each.id], fault) for each in properties}
    for number in range(1, ROUNDS):
        if outcomes[fault.killer] in (f"killed:{fault.reason}", UNSUPPORTED):
            break
        # drawn before anything is broken
        more = _cases(fault.killer, number, *place)
        with fault.active():
            outcomes[fault.killer] = _outcome(by_id(fault.killer), subject, more, fault)
    runtime, model, dtype, attention_backend = place
    return Kill.judged(
        fault=fault.id,
        source=fault.source,
        killer=fault.killer,
        reason_expected=fault.reason,
        outcomes=outcomes,
        quiet=fault.quiet,
        runtime=runtime,
        model=model,
        dtype=dtype,
        attention_backend=attention_backend,
    )


def _count(property: Property, fault: Fault) -> int:
    return KILLER_CASES if property.id == fault.killer else OTHER_CASES


def _outcome(property: Property, subject: Subject, cases: tuple[Any, ...], fault: Fault) -> str:
    if property.unsupported(subject) is not None:
        return UNSUPPORTED
    violation = first_violation(property, subject, cases, fault.reason if property.id == fault.killer else None)
    return QUIET if violation is None else f"killed:{violation.reason}"


def _place(fault: Fault, request: CertifyRequest | None) -> Where:
    """On a GPU with the dtype and the attention backend that are certified."""
    runtime, _, model = place_on(fault.places, request.runtime if request else fault.runtime).partition("/")
    if request is None or device_of(runtime) == "cpu":
        return runtime, model, "float32", None
    return runtime, model, request.dtype, request.attention_backend


@cache
def _subject(runtime: str, model: str, dtype: str, attention_backend: str | None) -> Subject:
    spec = SubjectSpec(runtime=runtime, model=model, dtype=dtype, attention_backend=attention_backend)
    return build_subject(spec)


@cache
def _cases(property_id: str, number: int, *place: Any) -> tuple[Any, ...]:
    """Of a round."""
    return draw_cases(by_id(property_id), _subject(*place), KILLER_CASES, SEED + number)
