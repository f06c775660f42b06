"""Whether a level is granted: derived from the records alone, by the run that writes a certificate and by everyone who
re-checks one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from conformance.certificate.in_order import out_of_order
from conformance.certificate.judge_kills import kill_reasons
from conformance.certificate.record import Kill, Manifest, Result, Status
from conformance.certificate.waivers import Waiver, waiver_problems
from conformance.clauses import LEVEL_BY_ID, Level
from conformance.must_pass import MustPass, Requirement


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
        *out_of_order(
            "results", "property", [need.property for need in must_pass.requirements], [r.property for r in results]
        ),
        *_runtime_reasons(manifest, must_pass),
        *_result_reasons(manifest, must_pass, results),
        *_undecided(LEVEL_BY_ID[must_pass.level], results),
        *waiver_problems(waivers, results, date.fromisoformat(manifest.started[:10])),
        *kill_reasons(manifest, must_pass, results, kills),
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
    for name in (*need.counters, *need.conditional):
        if result.counters.get(name, 1) <= 0:
            yield f"passed but vacuous: counter {name} is {result.counters[name]}"
        elif name not in (*result.counters, *need.conditional):
            yield f"passed without its vacuity counter {name}"
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
