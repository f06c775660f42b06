"""The command line with the real suite behind it, as far as a policy that is at fault lets it come."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.certificate.record import Result, Status
from conformance.request import CertifyRequest
from conformance.runner import run
from conformance.runner.events import Crash, Events
from properties.registry import CORE
from tests.cli.conftest import Cli

REQUEST = CertifyRequest(policy="mine:Policy", model="tiny-llama", work_dir="/nowhere")
PASSED = {
    rule.id: Result(
        property=rule.id,
        clause=rule.clause,
        status=Status.PASSED,
        runtime="torch",
        model="tiny-llama",
        examples=1,
        counters={},
        seconds=0.0,
    )
    for rule in CORE
    if rule.scope == "policy"
}
POLICY = """
from vskipper.policies.random_skip import RandomSkip

class Stop(BaseException):
    pass

class Stops(RandomSkip):
    def route(self, *arguments):
        raise Stop("enough\\nof this")
"""


@pytest.mark.parametrize(("status", "sound"), [("passed", True), ("vacuous", True), ("failed", False)])
def test_only_a_failed_policy_blocks_the_rest(status: str, sound: bool) -> None:
    results = PASSED | {"policy.declared": replace(PASSED["policy.declared"], status=Status(status))}
    assert run.is_sound(results) is sound


def test_a_policy_is_judged_by_every_one_of_its_properties() -> None:
    assert run.policy_unjudged(REQUEST, PASSED, []) is None
    results = {id: result for id, result in PASSED.items() if id != "policy.declared"}
    said = str(run.policy_unjudged(REQUEST, results, [Crash(reason="SystemExit: 3", text="")]))
    assert "policy mine:Policy" in said and "policy.declared ended by SystemExit: 3" in said
    assert "no result of policy.declared" in str(run.policy_unjudged(REQUEST, results, []))


@pytest.mark.parametrize("error", [RuntimeError("enough\nof this"), SystemExit("enough")])
def test_whatever_breaks_while_the_subject_is_built_is_bad_input(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build_subject(spec: object) -> None:
        raise error

    stream = io.StringIO()
    monkeypatch.setattr(run, "build_subject", build_subject)
    monkeypatch.setattr(Events, "claim_stdout", lambda: Events(stream))
    (tmp_path / "request.json").write_text(REQUEST.to_json())
    assert run.main(str(tmp_path / "request.json")) == 2
    sent = json.loads(stream.getvalue())
    assert (sent["event"], sent["where"]) == ("error", "policy mine:Policy, model tiny-llama")
    assert sent["got"] == f"{type(error).__name__}: enough" and sent["traceback"] is True
    assert "Traceback" in capsys.readouterr().err


def test_a_policy_that_ends_the_suite_is_one_line_and_its_traceback_is_kept(cli: Cli, home: Path) -> None:
    (home / "mine.py").write_text(POLICY)
    done = cli("certify", "mine:Stops", "--examples", "2", "--no-faults", "--workers", "0")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "[policy mine:Stops]: got policy.declared ended by mine.Stop: enough," in done.stderr
    log = Path(done.stderr.split()[-1])
    kept = log.read_text()
    log.unlink()
    assert "mine.py" in kept and "of this" in kept
    assert {path.name for path in home.iterdir()} <= {"mine.py", "__pycache__"}
