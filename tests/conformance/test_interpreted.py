"""Faults of the CPU's kernels, in a certification whose own processes compile kernels for a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conformance.faults.registry import FAULTS
from conformance.request import CertifyRequest
from conformance.runner.items import interpreted
from conformance.runner.session import VARIABLE
from vskipper.suite import INTERPRET, suite_environment

ON_A_GPU = CertifyRequest(policy="random-skip", model="small-llama", work_dir="/nowhere", runtime="sglang-cuda")
RUN = """
from conformance.request import CertifyRequest
from conformance.runner.events import ItemReports
from conformance.runner.run import run_interpreted
from conformance.runner.session import current_request
from vskipper.kernels.interpreter import interpreted


class Events:
    def send(self, event, **facts): ...


assert not interpreted()
reports = ItemReports(Events())
run_interpreted(current_request(), reports)
assert not reports.crashes, reports.crashes
print("killed:", *sorted(kill["fault"] for kill in reports.kills if kill["killed"] and kill["quiet_ok"]))
"""


def test_a_request_for_a_cpu_needs_no_other_processes() -> None:
    of_kernels = [fault for fault in FAULTS if interpreted(fault, ON_A_GPU)]
    assert len(of_kernels) >= 6
    cpu = CertifyRequest(policy="random-skip", model="tiny-llama", work_dir="/nowhere", runtime="sglang")
    assert not any(interpreted(fault, cpu) for fault in FAULTS)


def test_they_are_killed_by_workers_that_interpret_where_their_parent_does_not(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(ON_A_GPU.to_json())
    environment = suite_environment(tmp_path) | {VARIABLE: str(request)}
    environment.pop(INTERPRET, None)
    ran = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, check=False)
    expected = sorted(fault.id for fault in FAULTS if interpreted(fault, ON_A_GPU))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].split() == ["killed:", *expected], ran.stdout
