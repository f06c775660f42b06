"""One property's outcomes on several subjects as the one result that a certificate holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.certificate.record import Result, Status

# worst first: what one subject shows is not hidden by what another does
SEVERITY = (
    Status.FAILED,
    Status.UNEXPECTED_PASS,
    Status.VACUOUS,
    Status.BLOCKED,
    Status.EXPECTED_FAILURE,
    Status.UNSUPPORTED,
    Status.PASSED,
)


def merge(results: Sequence[Result]) -> Result:
    """examples add up; each counter is its least value, so that no subject hides another's vacuity; the worst status
    and its failure stand; the margin is the worst."""
    worst = min(results, key=lambda result: SEVERITY.index(result.status))
    margins = [result.margin for result in results if result.margin is not None]
    return Result(
        property=worst.property,
        clause=worst.clause,
        status=worst.status,
        runtime=",".join(dict.fromkeys(result.runtime for result in results)),
        model=",".join(dict.fromkeys(result.model for result in results)),
        examples=sum(result.examples for result in results),
        counters=_least([result.counters for result in results]),
        seconds=sum(result.seconds for result in results),
        margin=max(margins) if margins else None,
        failure=worst.failure,
    )


def _least(counters: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for each in counters for name in each)
    return {name: min(each.get(name, 0) for each in counters) for name in names}
