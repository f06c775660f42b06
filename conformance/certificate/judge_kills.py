"""Whether the seeded faults were killed as their level asks: each by its killer, for its reason, and no quiet one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from conformance.certificate.in_order import out_of_order
from conformance.certificate.record import UNSUPPORTED, Kill, Manifest, Result, Status, place_in_words
from conformance.must_pass import MustPass, SeededFault, place_on
from conformance.runtime_names import device_of


def kill_reasons(
    manifest: Manifest, must_pass: MustPass, results: Sequence[Result], kills: Sequence[Kill]
) -> Iterator[str]:
    """Why the kill matrix denies the level, a line each; nothing where no fault was run."""
    if not kills:
        return
    backend = manifest.engine.attention_backend if manifest.engine else None
    faults = {fault.fault: fault for fault in must_pass.faults_on(backend)}
    yield from out_of_order("kill matrix", "fault", list(faults), [k.fault for k in kills])
    # a property that the level does without here kills nothing here
    absent = {result.property for result in results if result.status == Status.UNSUPPORTED}
    for kill in kills:
        if kill.fault in faults:
            fault = faults[kill.fault]
            for reason in (
                *_elsewhere(kill, fault, manifest),
                *_row(kill, fault, must_pass),
                *_survived(kill, fault, absent),
            ):
                yield f"fault {kill.fault}: {reason}"
    killers = {kill.killer for kill in kills if kill.outcomes.get(kill.killer, "").startswith("killed:")}
    for need in must_pass.requirements:
        if need.property not in killers | absent:
            yield f"{need.property} ({need.clause}): killed no fault, so nothing shows that it can fail"


def _elsewhere(kill: Kill, fault: SeededFault, manifest: Manifest) -> Iterator[str]:
    """The fault was tried where the level says for the runtime that is certified; on a GPU as that is."""
    place = place_on(fault.places, manifest.runtimes[0])
    dtype, backend = "float32", None
    if device_of(place.partition("/")[0]) == "cuda":
        dtype, backend = manifest.dtypes[0], manifest.engine.attention_backend if manifest.engine else None
    expected = place_in_words(place, dtype, backend)
    if kill.place != expected:
        yield f"tried on {kill.place}, expected {expected}"


def _row(kill: Kill, fault: SeededFault, must_pass: MustPass) -> Iterator[str]:
    """The properties that the fault was held against are those it must be held against."""
    named = {fault.killer, *fault.quiet}
    expected = [n.property for n in must_pass.requirements if not fault.only_named or n.property in named]
    for property in expected:
        if property not in kill.outcomes:
            yield f"outcomes: {property} is missing"
    for property in kill.outcomes:
        if property not in expected:
            yield f"outcomes: {property} is not expected"


def _survived(kill: Kill, fault: SeededFault, absent: Collection[str]) -> Iterator[str]:
    if (kill.killer, kill.reason_expected, set(kill.quiet)) != (fault.killer, fault.reason, set(fault.quiet)):
        yield (
            f"got killer {kill.killer} for {kill.reason_expected}, quiet {','.join(kill.quiet) or '-'}; "
            f"expected {fault.killer} for {fault.reason}, quiet {','.join(fault.quiet) or '-'}"
        )
    outcome = kill.outcomes.get(fault.killer, "not run")
    missed = outcome == UNSUPPORTED and fault.killer in absent
    if outcome != f"killed:{fault.reason}" and not missed:
        yield f"{fault.killer}: got {outcome}, expected killed:{fault.reason}"
    for property in fault.quiet:
        if kill.outcomes.get(property) != "quiet":
            yield f"{property}: got {kill.outcomes.get(property, 'not run')}, expected quiet"
    rejudged = kill.rejudged()
    if rejudged != kill:
        yield f"verdict: got {_verdict(kill)}, expected {_verdict(rejudged)} by its outcomes"


def _verdict(kill: Kill) -> str:
    return f"{'killed' if kill.killed else 'survived'}, {'quiet' if kill.quiet_ok else 'not quiet'}"
