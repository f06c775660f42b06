"""One certification from request to manifest: the policy alone first, then everything else, each as a pytest run."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conformance.clauses import CONTRACT_VERSION
from conformance.record import Manifest, Result, Status
from conformance.request import Request
from conformance.runner.environment import machine, model_identity, policy_identity, versions
from conformance.runner.events import Events, ItemReports
from conformance.runner.items import VARIANTS, asked_for, faults, full_examples, property_items
from conformance.runner.merge import merge
from conformance.runner.sample import sample_tape
from conformance.runner.session import VARIABLE
from conformance.subjects import build_subject
from properties.property import Subject
from properties.registry import CORE
from vskipper import __version__
from vskipper.errors import InputError

FOLDER = Path(__file__).parent


def main(path: str) -> int:
    events = Events.claim_stdout()
    started = time.monotonic()
    try:
        request = Request.from_json(Path(path).read_text(encoding="utf-8"))
        subject = build_subject(asked_for(request))
    except InputError as error:
        events.error(error)
        return 2
    os.environ[VARIABLE] = path
    events.send("plan", total=len(property_items(request)) + len(faults(request)))
    reports = ItemReports(events)
    _pytest(request, reports, "policy", workers=0)
    results = _results(reports)
    sound = all(result.status in (Status.PASSED, Status.UNSUPPORTED) for result in results.values())
    if sound:
        _pytest(request, reports, "not policy", workers=request.workers)
        results = _results(reports)
    if reports.crashes:
        print("\n".join(reports.crashes), file=sys.stderr)
        return 3
    for property in CORE:
        result = results.get(property.id) or _blocked(property.id, property.clause, request)
        events.send("result", result=result.to_json())
    for kill in _ordered_kills(request, reports):
        events.send("kill", kill=kill)
    tape = sample_tape(subject) if sound else ()
    manifest = _manifest(request, subject, tape, time.monotonic() - started)
    events.send("done", manifest=manifest.to_json(), waivers="")
    return 0


def _pytest(request: Request, reports: ItemReports, marks: str, *, workers: int) -> None:
    """One pytest run over the items with these marks; what they recorded lands in `reports`."""
    arguments = [str(FOLDER / "test_suite.py"), "-c", str(FOLDER / "pytest.ini"), "-q", "-m", marks]
    arguments += ["-p", "xdist.plugin", "-n", str(workers), "--dist", "loadgroup", "--import-mode", "importlib"]
    code = pytest.main(arguments, plugins=[reports])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        reports.crashes.append(f"pytest ended with {code!r}")


def _results(reports: ItemReports) -> dict[str, Result]:
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for raw in reports.results:
        result = Result.from_json(raw)
        found[result.property].append(result)
    return {property: merge(results) for property, results in found.items()}


def _blocked(property: str, clause: str, request: Request) -> Result:
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


def _ordered_kills(request: Request, reports: ItemReports) -> list[dict[str, Any]]:
    order = [fault.id for fault in faults(request)]
    return sorted(reports.kills, key=lambda kill: order.index(kill["fault"]))


def _manifest(request: Request, subject: Subject, tape: tuple[str, ...], seconds: float) -> Manifest:
    return Manifest(
        suite_version=__version__,
        contract_version=CONTRACT_VERSION,
        level=request.level,
        policy=policy_identity(request, subject),
        model=model_identity(subject.model),
        runtimes=tuple(dict.fromkeys(variant.runtime for variant in VARIANTS[request.runtime])),
        versions=versions(),
        machine=machine(),
        page_sizes=subject.runtime.capabilities.page_sizes,
        dtypes=(str(subject.model.dtype).removeprefix("torch."),),
        seed=request.seed,
        examples={property.id: full_examples(property, request) for property in CORE},
        started=datetime.fromtimestamp(time.time() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(seconds, 1),
        sample_tape=tape,
    )
