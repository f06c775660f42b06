"""Runs one recorded case again, with the fault that was in force, if one was."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from conformance.certificate.record import Failure
from conformance.faults.registry import fault_by_id
from conformance.replay_blob import ReplayBlob
from conformance.runner.report_case import failure
from conformance.subjects import build_subject
from properties.codec import decode
from properties.property import Property, Subject
from properties.registry import by_id
from properties.run import draw_cases, first_violation
from vskipper.errors import InputError

DRAWN = 8


def replay(text: str, policy: str | None = None) -> Failure | None:
    """The failure that the case in `text` still provokes, or None. policy: another one to run it with.

    Raises InputError for a word that is damaged or names what this suite does not have.
    """
    blob = ReplayBlob.decode(text)
    spec = blob.spec if policy is None else replace(blob.spec, policy=policy)
    property = by_id(blob.property)
    subject = build_subject(spec)
    case = decode(blob.case)
    _check_type(property, subject, case)
    with ExitStack() as stack:
        if blob.fault is not None:
            stack.enter_context(fault_by_id(blob.fault).active())
        violation = first_violation(property, subject, (case,))
        return None if violation is None else failure(property, spec, case, violation, blob.seed, blob.fault)


def _check_type(property: Property, subject: Subject, case: Any) -> None:
    """Raise InputError for a case of another type than the property draws."""
    drawn = {type(each) for each in draw_cases(property, subject, DRAWN, 0)}
    if drawn and type(case) not in drawn:
        expected = " or ".join(sorted(each.__name__ for each in drawn))
        raise InputError("replay word", where=f"case of {property.id}", got=type(case).__name__, expected=expected)
