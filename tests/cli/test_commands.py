"""`vskipper verify`, `policies` and the program's own options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.conformance.sample import failed, good_run
from vskipper import __version__
from vskipper.registry.lookup import BUILT_IN


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["certify", "--help"], ["verify", "-h"], ["policies", "-h"]]
)
def test_help_and_version_need_no_torch(cli: Cli, without_torch: Path, arguments: list[str]) -> None:
    done = cli(*arguments, path=(without_torch,))
    assert done.returncode == 0 and done.stderr == ""
    assert ("Usage: vskipper" in done.stdout) != (done.stdout == f"vskipper {__version__}\n")


@pytest.mark.parametrize("arguments", [["frobnicate"], ["--frobnicate"], ["verify"]])
def test_a_usage_error_is_one_line(cli: Cli, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and done.stderr.startswith("vskipper: ")


def test_alone_it_prints_its_help(cli: Cli) -> None:
    done = cli()
    assert done.returncode == 0 and done.stderr == "" and done.stdout == cli("--help").stdout
    assert len(done.stdout.splitlines()) > 10


def test_verify_needs_no_torch_and_refuses_a_changed_certificate(cli: Cli, home: Path, without_torch: Path) -> None:
    good_run().write(home / "cert")
    (home / "cert" / "report.html").write_text("Core granted, trust me")
    done = cli("verify", "cert", path=(without_torch,))
    assert done.returncode == 1 and done.stderr == ""
    assert "cert: report.html: SHA-256 got" in done.stdout and "refused" in done.stdout.splitlines()[-1]


def test_verify_tells_a_program_in_json(faked: Cli, home: Path) -> None:
    good_run().with_result("kv.scale", failed).write(home / "cert")
    done = faked("verify", "cert", "--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == 1 and not verdict["ok"] and verdict["level"] == "Core"
    assert "kv.scale (KV-4): failed" in verdict["refusals"]
    good_run().write(home / "cert")
    done = faked("verify", "cert", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["refusals"] == []


@pytest.mark.parametrize("newer", [False, True])
def test_verify_exits_2_for_what_it_cannot_judge(cli: Cli, home: Path, newer: bool) -> None:
    if newer:
        good_run().write(home / "cert")
        file = home / "cert" / "manifest.json"
        file.write_text(file.read_text().replace('"contract_version": 1', '"contract_version": 2'))
    done = cli("verify", "cert")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert ("newer contract" if newer else "not a certificate") in done.stderr


def test_policies_lists_the_built_in_ones(cli: Cli) -> None:
    done = cli("policies", "--json")
    assert done.returncode == 0, done.stderr
    listed = {entry["name"]: entry for entry in json.loads(done.stdout)}
    assert set(BUILT_IN) <= set(listed)
    for name in BUILT_IN:
        assert listed[name]["broken"] is None and "RUN" in listed[name]["actions"]


def test_a_broken_registered_policy_is_listed_as_broken(cli: Cli, home: Path) -> None:
    info = home / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[vskipper.policies]\nno-such-module = nowhere:Policy\nexplodes = explodes:Policy\n"
        "random-skip = explodes:Policy\n"
    )
    (home / "explodes.py").write_text("raise RuntimeError('boom')\n")
    done = cli("policies", "--json", path=(home,))
    assert done.returncode == 0, done.stderr
    listed = [entry for entry in json.loads(done.stdout) if entry["origin"] == "their-package"]
    reasons = {entry["name"]: entry["broken"] for entry in listed}
    assert "nowhere" in reasons["no-such-module"] and "boom" in reasons["explodes"]
    assert "registered twice" in reasons["random-skip"]
    table = cli("policies", path=(home,)).stdout
    assert "broken: " in table and "PROJECT_ONLY" in table
