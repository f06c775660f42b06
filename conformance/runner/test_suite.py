"""The certification as pytest collects it: one test a property and subject, one a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from _pytest.mark import ParameterSet

from conformance.certificate.record import UNSUPPORTED, Status
from conformance.faults.fault import Fault
from conformance.runner.items import PropertyItem, faults, interpreted, property_items
from conformance.runner.kill import run_fault
from conformance.runner.run_item import run_item
from conformance.runner.session import current_request

REQUEST = current_request()
GOOD = (Status.PASSED, Status.UNSUPPORTED)


def marked(item: PropertyItem) -> ParameterSet:
    """Policy items come first, in a run of their own; those on the model asked for share a worker, and those that need
    a server share another one's."""
    marks = [pytest.mark.policy] if item.rule.scope == "policy" else []
    if item.spec.runtime == "server":
        marks.append(pytest.mark.xdist_group("server"))
    elif item.rule.scope == "model":
        marks.append(pytest.mark.xdist_group("model"))
    return pytest.param(item, marks=marks, id=item.id)


@pytest.mark.parametrize("item", [marked(item) for item in property_items(REQUEST)])
def test_property(item: PropertyItem, record_property: Callable[[str, object], None]) -> None:
    result = run_item(item)
    record_property("result", result.to_json())
    if result.status not in GOOD:
        pytest.fail(result.failure.line if result.failure else f"{item.id}: {result.status}", pytrace=False)


def marked_fault(fault: Fault) -> ParameterSet:
    """Those that need processes of their own."""
    return pytest.param(fault, marks=[pytest.mark.interpreted] if interpreted(fault, REQUEST) else [], id=fault.id)


@pytest.mark.parametrize("fault", [marked_fault(fault) for fault in faults(REQUEST)])
def test_fault(fault: Fault, record_property: Callable[[str, object], None]) -> None:
    kill = run_fault(fault, REQUEST)
    record_property("kill", kill.to_json())
    if kill.outcomes[fault.killer] == UNSUPPORTED:
        pytest.skip(f"{fault.killer}: unsupported")
    assert kill.killed, f"{fault.id}: {fault.killer} got {kill.outcomes[fault.killer]}, expected {fault.reason}"
    assert kill.quiet_ok, f"{fault.id}: {kill.outcomes}"
