"""Records survive their JSON form unchanged, and a kill's verdicts follow from its outcomes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conformance.certificate.record import EngineIdentity, Kill, Manifest, Result, Status
from tests.conformance.sample import failed, good_run

RUN = good_run()


@pytest.mark.parametrize("result", [RUN.results[0], failed(RUN.results[1]), replace(RUN.results[8], margin=None)])
def test_a_result_reads_back(result: Result) -> None:
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_kill_reads_back() -> None:
    assert [Kill.from_json(json.loads(json.dumps(kill.to_json()))) for kill in RUN.kills] == list(RUN.kills)


@pytest.mark.parametrize("engine", [None, EngineIdentity(name="sglang", version="0.5.16")])
def test_a_manifest_reads_back(engine: EngineIdentity | None) -> None:
    manifest = replace(RUN.manifest, engine=engine, granted=True)
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest


def test_an_unknown_status_is_no_result() -> None:
    with pytest.raises(ValueError, match="skipped"):
        Result.from_json(RUN.results[0].to_json() | {"status": "skipped"})
    assert Status("passed") is Status.PASSED


@pytest.mark.parametrize(
    ("outcomes", "killed", "quiet_ok"),
    [
        ({"a.x": "killed:r", "b.y": "quiet"}, True, True),
        ({"a.x": "killed:other", "b.y": "quiet"}, False, True),
        ({"a.x": "quiet", "b.y": "killed:r"}, False, False),
        ({"a.x": "killed:r"}, True, False),
        ({"b.y": "quiet"}, False, True),
    ],
)
def test_a_kill_is_judged_by_its_outcomes(outcomes: dict[str, str], killed: bool, quiet_ok: bool) -> None:
    kill = Kill.judged(
        fault="f",
        source="s",
        killer="a.x",
        reason_expected="r",
        outcomes=outcomes,
        quiet=("b.y",),
        runtime="torch",
        model="tiny-llama",
    )
    assert (kill.killed, kill.quiet_ok, kill.ok) == (killed, quiet_ok, killed and quiet_ok)
