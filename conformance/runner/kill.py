"""One fault against every property: the cases are drawn once, the checks are looped while the fault is in force."""

from __future__ import annotations

from functools import cache
from typing import Any

from conformance.faults.fault import Fault
from conformance.record import QUIET, Kill
from conformance.subjects import SubjectSpec, build_subject
from properties.property import Property, Subject
from properties.registry import LEVEL_OF, PROPERTIES, by_id
from properties.run import draw_cases, first_violation

# the cases are the same for everyone, so that a fault's reason is
SEED = 0
KILLER_CASES = 24
OTHER_CASES = 3


def run_fault(fault: Fault) -> Kill:
    """The fault's line of the kill matrix, over the properties it is held against."""
    subject = _subject(fault.runtime, fault.model)
    properties = [property for property in PROPERTIES[LEVEL_OF[fault.killer]] if fault.meets(property.id)]
    drawn = {each.id: _cases(each.id, fault.runtime, fault.model)[: _count(each, fault)] for each in properties}
    with fault.active():
        outcomes = {each.id: _outcome(each, subject, drawn[each.id]) for each in properties}
    return Kill.judged(
        fault=fault.id,
        source=fault.source,
        killer=fault.killer,
        reason_expected=fault.reason,
        outcomes=outcomes,
        quiet=fault.quiet,
    )


def _count(property: Property, fault: Fault) -> int:
    return KILLER_CASES if property.id == fault.killer else OTHER_CASES


def _outcome(property: Property, subject: Subject, cases: tuple[Any, ...]) -> str:
    violation = first_violation(property, subject, cases)
    return QUIET if violation is None else f"killed:{violation.reason}"


@cache
def _subject(runtime: str, model: str) -> Subject:
    return build_subject(SubjectSpec(runtime=runtime, model=model))


@cache
def _cases(property_id: str, runtime: str, model: str) -> tuple[Any, ...]:
    return draw_cases(by_id(property_id), _subject(runtime, model), KILLER_CASES, SEED)
