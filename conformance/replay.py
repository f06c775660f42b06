"""Runs one recorded case again, with the fault that was in force, if one was."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from conformance.case_fields import misfit
from conformance.certificate.record import Failure
from conformance.faults.registry import fault_by_id
from conformance.replay_blob import ReplayBlob
from conformance.runner.report_case import failure
from conformance.subjects import SubjectSpec, build_subject
from properties.codec import decode
from properties.property import Property, Subject
from properties.registry import by_id
from properties.run import draw_cases, first_violation
from properties.violation import Violation
from vskipper.errors import InputError

DRAWN = 8


def replay(text: str, policy: str | None = None) -> Failure | None:
    """The failure that the case in `text` still provokes, or None. policy: another one to run it with.

    Raises InputError for a word that is damaged, names what this suite does not have, or holds no case of its property.
    """
    blob = ReplayBlob.decode(text)
    spec = blob.spec if policy is None else replace(blob.spec, policy=policy)
    property = by_id(blob.property)
    subject = build_subject(spec)
    case = _case(blob.case, property, subject)
    with ExitStack() as stack:
        if blob.fault is not None:
            stack.enter_context(fault_by_id(blob.fault).active())
        violation = first_violation(property, subject, (case,))
        return None if violation is None else _told(property, spec, case, violation, blob)


def _case(text: str, property: Property, subject: Subject) -> Any:
    """Raises InputError for a case of another type than the property draws, and for fields of other types."""
    where = f"case of {property.id}"
    drawn = {type(each) for each in draw_cases(property, subject, DRAWN, 0)}
    expected = " or ".join(sorted(each.__name__ for each in drawn))
    try:
        case = decode(text)
        wrong = misfit(case, type(case), type(case).__name__)
    except RecursionError as error:
        raise InputError("replay word", where=where, got="nesting too deep", expected=expected) from error
    if drawn and type(case) not in drawn:
        raise InputError("replay word", where=where, got=type(case).__name__, expected=expected)
    if wrong is not None:
        raise InputError("replay word", where=where, got=wrong, expected="what the class declares")
    return case


def _told(property: Property, spec: SubjectSpec, case: Any, violation: Violation, blob: ReplayBlob) -> Failure:
    """Raises InputError for a case that no strategy drew: it cannot even be described."""
    try:
        return failure(property, spec, case, violation, blob.seed, blob.fault)
    except InputError:
        raise
    except Exception as error:
        where, got = f"case of {property.id}", f"{type(error).__name__}: {error}"
        raise InputError("replay word", where=where, got=got, expected="a case that this suite drew") from error
