"""Runs one property item to a result."""

from __future__ import annotations

import time

from conformance.certificate.record import Failure, Result, Status
from conformance.runner.items import PropertyItem
from conformance.runner.report_case import failure
from conformance.subjects import build_subject
from properties.run import Outcome, run_property


def run_item(item: PropertyItem) -> Result:
    """Hypothesis over the item's cases; a failing one comes back shrunk."""
    started = time.monotonic()
    outcome = run_property(item.rule, build_subject(item.spec), examples=item.examples, seed=item.seed)
    return Result(
        property=item.rule.id,
        clause=item.rule.clause,
        status=Status(outcome.status),
        runtime=item.spec.runtime,
        model=item.spec.model,
        examples=outcome.examples,
        counters=outcome.counters,
        seconds=round(time.monotonic() - started, 3),
        margin=outcome.margin,
        failure=_failure(item, outcome),
    )


def _failure(item: PropertyItem, outcome: Outcome) -> Failure | None:
    if outcome.violation is None:
        return None
    return failure(item.rule, item.spec, outcome.case, outcome.violation, item.seed)
