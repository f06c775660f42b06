"""One certification from request to manifest: the policy alone first, then everything else, each as a pytest run."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from conformance.certificate.record import Manifest, Result, Status
from conformance.clauses import CONTRACT_VERSION
from conformance.expected import expected_in, known_failures
from conformance.must_pass import load_must_pass
from conformance.request import CertifyRequest
from conformance.runner.environment import engine_identity, machine, model_identity, policy_identity, versions
from conformance.runner.events import Crash, Events, ItemReports
from conformance.runner.items import asked_for, faults, full_examples, interpreted, property_items, targets
from conformance.runner.merge import merge
from conformance.runner.sample import sample_tape
from conformance.runner.session import VARIABLE
from conformance.subjects import build_subject
from properties.property import Subject
from properties.registry import PROPERTIES
from vskipper import __version__
from vskipper.errors import InputError
from vskipper.suite import INTERPRET

FOLDER = Path(__file__).parent


def main(path: str) -> int:
    events = Events.claim_stdout()
    started = time.monotonic()
    request = CertifyRequest.from_json(Path(path).read_text(encoding="utf-8"))
    try:
        items = property_items(request)
        subject = build_subject(asked_for(request))
        engine = engine_identity(request)
        known = known_failures(None if engine is None else engine.version)
    except InputError as error:
        events.error(error)
        return 2
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        events.error(_unusable(request, error), traceback=True)
        return 2
    os.environ[VARIABLE] = path
    events.send("plan", total=len(items) + len(faults(request)))
    reports = ItemReports(events)
    if any(item.rule.scope == "policy" for item in items):
        _pytest(reports, "policy", workers=0)
    results = _results(reports)
    unjudged = policy_unjudged(request, results, reports.crashes)
    if unjudged is not None:
        _print(reports.crashes)
        events.error(unjudged, traceback=True)
        return 2
    sound = is_sound(results)
    if sound:
        _pytest(reports, "not policy and not interpreted", workers=request.workers)
        run_interpreted(request, reports)
        results = _results(reports)
    if reports.crashes:
        _print(reports.crashes)
        return 3
    for property in PROPERTIES[request.level]:
        result = results.get(property.id) or _blocked(property.id, property.clause, request)
        events.send("result", result=result.to_json())
    for kill in _ordered_kills(request, reports):
        events.send("kill", kill=kill)
    tape = sample_tape(subject) if sound else ()
    asked = (request.runtime, subject.model.name)
    manifest = _manifest(request, subject, tape, time.monotonic() - started)
    events.send("done", manifest=manifest.to_json(), waivers=expected_in(known, load_must_pass(request.level), *asked))
    return 0


def run_interpreted(request: CertifyRequest, reports: ItemReports) -> None:
    """The items that need Triton's interpreter where this process compiles kernels for a GPU: in workers, which start
    with the environment as it then is."""
    if any(interpreted(fault, request) for fault in faults(request)):
        with mock.patch.dict(os.environ, {INTERPRET: "1"}):
            _pytest(reports, "interpreted", workers=max(1, request.workers))


def is_sound(results: Mapping[str, Result]) -> bool:
    """Whether nothing found the policy at fault; what too few examples left vacuous finds nothing."""
    return all(result.status != Status.FAILED for result in results.values())


def policy_unjudged(
    request: CertifyRequest, results: Mapping[str, Result], crashes: Sequence[Crash]
) -> InputError | None:
    """Why the policy could not be judged: one of its properties has no result, as when a hook calls sys.exit."""
    lacking = [rule.id for rule in PROPERTIES[request.level] if rule.scope == "policy" and rule.id not in results]
    if not lacking:
        return None
    got = f"{lacking[0]} ended by {crashes[0].reason}" if crashes else f"no result of {lacking[0]}"
    where, expected = f"policy {request.policy}", "hooks that return or raise an Exception"
    return InputError("policy cannot be judged", where=where, got=got, expected=expected)


def _unusable(request: CertifyRequest, error: BaseException) -> InputError:
    first = next(iter(str(error).splitlines()), "")
    return InputError(
        "policy or model cannot be used",
        where=f"policy {request.policy}, model {request.model}",
        got=f"{type(error).__name__}: {first}",
        expected="both to load",
    )


def _print(crashes: Iterable[Crash]) -> None:
    print("\n".join(crash.text for crash in crashes), file=sys.stderr, flush=True)


def _pytest(reports: ItemReports, marks: str, *, workers: int) -> None:
    """One pytest run over the items with these marks; what they recorded lands in `reports`."""
    arguments = [str(FOLDER / "test_suite.py"), "-c", str(FOLDER / "pytest.ini"), "-q", "-m", marks]
    arguments += ["-p", "xdist.plugin", "-n", str(workers), "--dist", "loadgroup", "--import-mode", "importlib"]
    code = pytest.main(arguments, plugins=[reports])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        said = f"pytest ended with {code!r}"
        reports.crashes.append(Crash(reason=said, text=said))


def _results(reports: ItemReports) -> dict[str, Result]:
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for raw in reports.results:
        result = Result.from_json(raw)
        found[result.property].append(result)
    return {property: merge(results) for property, results in found.items()}


def _blocked(property: str, clause: str, request: CertifyRequest) -> Result:
    """Not run, since the policy itself is at fault."""
    return Result(
        property=property,
        clause=clause,
        status=Status.BLOCKED,
        runtime=request.runtime,
        model=request.model,
        examples=0,
        counters={},
        seconds=0.0,
    )


def _ordered_kills(request: CertifyRequest, reports: ItemReports) -> list[dict[str, Any]]:
    order = [fault.id for fault in faults(request)]
    return sorted(reports.kills, key=lambda kill: order.index(kill["fault"]))


def _manifest(request: CertifyRequest, subject: Subject, tape: tuple[str, ...], seconds: float) -> Manifest:
    return Manifest(
        suite_version=__version__,
        contract_version=CONTRACT_VERSION,
        level=request.level,
        policy=policy_identity(request, subject),
        model=model_identity(subject.model),
        runtimes=tuple(dict.fromkeys(target.runtime for target in targets(request.level, request.runtime))),
        versions=versions(),
        engine=engine_identity(request),
        machine=machine(),
        page_sizes=subject.runtime.capabilities.page_sizes,
        dtypes=(str(subject.model.dtype).removeprefix("torch."),),
        seed=request.seed,
        examples={property.id: full_examples(property, request) for property in PROPERTIES[request.level]},
        started=datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(seconds, 1),
        sample_tape=tape,
    )
