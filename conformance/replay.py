"""Runs one recorded case again, with the fault that was in force, if one was."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from conformance.faults.registry import fault_by_id
from conformance.record import Failure
from conformance.replay_blob import ReplayBlob
from conformance.runner.report_case import failure
from conformance.subjects import build_subject
from properties.codec import decode
from properties.registry import by_id
from properties.run import first_violation


def replay(text: str, policy: str | None = None) -> Failure | None:
    """The failure that the case in `text` still provokes, or None. policy: another one to run it with.

    Raises InputError for a word that is damaged or names what this suite does not have.
    """
    blob = ReplayBlob.decode(text)
    spec = blob.spec if policy is None else replace(blob.spec, policy=policy)
    property = by_id(blob.property)
    subject = build_subject(spec)
    case = decode(blob.case)
    with ExitStack() as stack:
        if blob.fault is not None:
            stack.enter_context(fault_by_id(blob.fault).active())
        violation = first_violation(property, subject, (case,))
        return None if violation is None else failure(property, spec, case, violation, blob.seed, blob.fault)
