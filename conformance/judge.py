"""Whether a level is granted: derived from the records alone, by the run that writes a certificate and by everyone who
re-checks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from conformance.clauses import LEVEL_BY_ID, Level
from conformance.must_pass import MustPass, Requirement, SeededFault
from conformance.record import Kill, Manifest, Result, Status
from conformance.waivers import Waiver, waiver_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """reduced: fewer examples than the level asks, or no faults although the policy could be run. reasons: why the
    level is not granted, one line each."""

    reduced: bool
    reasons: tuple[str, ...]

    @property
    def granted(self) -> bool:
        return not self.reasons


def decide(
    manifest: Manifest,
    must_pass: MustPass,
    results: Sequence[Result],
    kills: Sequence[Kill],
    waivers: Sequence[Waiver],
) -> Decision:
    """Judge a run. Nothing that the manifest says of its own verdict is read."""
    blocked = any(result.status == Status.BLOCKED for result in results)
    reduced = tuple(_reductions(manifest.examples, must_pass, kills, blocked))
    reasons = (
        *_order(
            "results", "property", [need.property for need in must_pass.requirements], [r.property for r in results]
        ),
        *_runtime_reasons(manifest, must_pass),
        *_result_reasons(manifest, must_pass, results),
        *_undecided(LEVEL_BY_ID[must_pass.level], results),
        *waiver_problems(waivers, results, date.fromisoformat(manifest.started[:10])),
        *_kill_reasons(must_pass, kills),
        *reduced,
    )
    return Decision(reduced=bool(reduced), reasons=reasons)


def _reductions(
    declared: Mapping[str, int], must_pass: MustPass, kills: Sequence[Kill], blocked: bool
) -> Iterator[str]:
    short = [need for need in must_pass.requirements if declared.get(need.property, 0) < need.examples]
    if short:
        need = short[0]
        yield (
            f"REDUCED: {len(short)} of {len(must_pass.requirements)} properties declared fewer examples than the level "
            f"asks, first {need.property}: got {declared.get(need.property, 0)}, expected {need.examples}"
        )
    if not kills and not blocked:
        yield "REDUCED: no seeded fault was run, so nothing shows that the properties can fail"


def _order(table: str, kind: str, expected: Sequence[str], got: Sequence[str]) -> Iterator[str]:
    """One line for each missing, surplus or repeated name; one for a wrong order."""
    if list(expected) == list(got):
        return
    want, have = Counter(expected), Counter(got)
    for name in expected:
        if name not in have:
            yield f"{table}: {kind} {name} is missing"
    for name, count in have.items():
        if name not in want:
            yield f"{table}: {kind} {name} is not on the must-pass list"
        elif count > 1:
            yield f"{table}: {kind} {name} stands {count} times, expected once"
    if want == have:
        first = next(index for index, pair in enumerate(zip(expected, got, strict=True)) if pair[0] != pair[1])
        yield f"{table}: order, entry {first + 1}: got {got[first]}, expected {expected[first]}"


def _runtime_reasons(manifest: Manifest, must_pass: MustPass) -> Iterator[str]:
    """The first runtime is the one that was asked for; the level says which others come with it."""
    expected = must_pass.runtimes(manifest.runtimes[0])
    if not expected:
        yield f"runtime {manifest.runtimes[0]}: a control, which grants no level"
    elif manifest.runtimes != expected:
        yield f"runtimes: got {', '.join(manifest.runtimes)}, expected {', '.join(expected)}"


def _subject_reasons(result: Result, expected: Sequence[str]) -> Iterator[str]:
    """Merged results name their runtimes and models in the order in which these ended, so order is not compared."""
    if not expected or result.status == Status.BLOCKED:
        return
    pairs = [subject.partition("/") for subject in expected]
    for kind, got, names in (
        ("runtime", result.runtime, {runtime for runtime, _, _ in pairs}),
        ("model", result.model, {model for _, _, model in pairs}),
    ):
        # a model asked for may be a folder whose name holds a comma
        if {got} != names and sorted(got.split(",")) != sorted(names):
            yield f"{kind}: got {got}, expected {','.join(sorted(names))}"


def _result_reasons(manifest: Manifest, must_pass: MustPass, results: Sequence[Result]) -> Iterator[str]:
    needs = {need.property: need for need in must_pass.requirements}
    for result in results:
        need = needs.get(result.property)
        if need is not None:
            name = f"{result.property} ({need.clause})"
            for reason in _subject_reasons(result, need.subjects_of(manifest.runtimes[0], manifest.model.name)):
                yield f"{name}: {reason}"
            for reason in _reasons_of(result, need, manifest.examples.get(result.property, 0)):
                yield f"{name}: {reason}"


def _undecided(level: Level, results: Sequence[Result]) -> Iterator[str]:
    """Clauses that no property speaks for, be it that none exists or that none is supported."""
    decided = {result.clause for result in results if result.status != Status.UNSUPPORTED}
    for clause in level.clauses:
        if clause.id not in decided:
            yield f"clause {clause.id}: no property decides it"


def _reasons_of(result: Result, need: Requirement, declared: int) -> Iterator[str]:
    if result.clause != need.clause:
        yield f"clause: got {result.clause}, expected {need.clause}"
    if result.status == Status.PASSED:
        yield from _hollow(result, need, declared)
    elif result.status == Status.UNSUPPORTED:
        if not need.optional:
            yield "unsupported, and the level does not do without it"
    elif result.status != Status.EXPECTED_FAILURE:
        yield result.status.value.replace("_", " ")


def _hollow(result: Result, need: Requirement, declared: int) -> Iterator[str]:
    """Why a pass is none: it checked too little, saw nothing, or contradicts itself."""
    for name in need.counters:
        if name not in result.counters:
            yield f"passed without its vacuity counter {name}"
        elif result.counters[name] <= 0:
            yield f"passed but vacuous: counter {name} is {result.counters[name]}"
    if result.examples < declared:
        yield f"passed with {result.examples} examples, declared {declared}"
    if result.seconds <= 0:
        yield "passed in no time"
    if need.compares == "margin" and result.margin is None:
        yield "passed without a margin, and it compares with an envelope"
    if need.compares == "bits" and result.margin is not None:
        yield f"passed with a margin of {result.margin:g}, and it compares bits"
    if result.margin is not None and result.margin > 1:
        yield f"passed with a margin of {result.margin:g}, at most 1 is within the envelope"
    if result.failure is not None:
        yield "passed with a failure on record"


def _kill_reasons(must_pass: MustPass, kills: Sequence[Kill]) -> Iterator[str]:
    if not kills:
        return
    yield from _order("kill matrix", "fault", [f.fault for f in must_pass.faults], [k.fault for k in kills])
    faults = {fault.fault: fault for fault in must_pass.faults}
    for kill in kills:
        if kill.fault in faults:
            for reason in (*_row(kill, faults[kill.fault], must_pass), *_survived(kill, faults[kill.fault])):
                yield f"fault {kill.fault}: {reason}"
    killers = {kill.killer for kill in kills if kill.outcomes.get(kill.killer, "").startswith("killed:")}
    for need in must_pass.requirements:
        if need.property not in killers:
            yield f"{need.property} ({need.clause}): killed no fault, so nothing shows that it can fail"


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


def _survived(kill: Kill, fault: SeededFault) -> Iterator[str]:
    if (kill.killer, kill.reason_expected, set(kill.quiet)) != (fault.killer, fault.reason, set(fault.quiet)):
        yield (
            f"got killer {kill.killer} for {kill.reason_expected}, quiet {','.join(kill.quiet) or '-'}; "
            f"expected {fault.killer} for {fault.reason}, quiet {','.join(fault.quiet) or '-'}"
        )
    outcome = kill.outcomes.get(fault.killer, "not run")
    if outcome != f"killed:{fault.reason}":
        yield f"{fault.killer}: got {outcome}, expected killed:{fault.reason}"
    for property in fault.quiet:
        if kill.outcomes.get(property) != "quiet":
            yield f"{property}: got {kill.outcomes.get(property, 'not run')}, expected quiet"
    rejudged = Kill.judged(
        fault=kill.fault,
        source=kill.source,
        killer=kill.killer,
        reason_expected=kill.reason_expected,
        outcomes=kill.outcomes,
        quiet=kill.quiet,
    )
    if rejudged != kill:
        yield f"verdict: got {_verdict(kill)}, expected {_verdict(rejudged)} by its outcomes"


def _verdict(kill: Kill) -> str:
    return f"{'killed' if kill.killed else 'survived'}, {'quiet' if kill.quiet_ok else 'not quiet'}"
