"""A person's own policy, outside the repository: certified as the README shows it, refused when broken."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.policies import BROKEN, broken_policy, line_number, readme_policy
from vskipper.request_key import request_key
from vskipper.suite import suite_root

# wrong beside a request whose name a policy alone is never asked for, so that only a model's passes show it
RARE = {
    "return batch.positions % self.period == 0": "return batch.request_keys",
    "masked_fill(state": "masked_fill(state % self.period == 0",
    "prefix_determined=True,": "prefix_determined=True,\n            needs_projector=True,",
}
PROJECTOR = f"""
    def project(self, layer: int, y: Tensor, state: Tensor) -> Tensor:
        rare = (state == {request_key("r0")}).any()
        return 0.1 * torch.where(rare, y - y.mean(0), y)
"""


def vskipper(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, run in the user's folder."""
    root = suite_root()
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from vskipper.cli.main import run; sys.exit(run())"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def certify(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return vskipper(
        folder, "certify", "skip_periodic:SkipPeriodic", "--model", "tiny-llama", "--out", "certificate", *options
    )


def test_the_readme_s_policy_is_thirty_lines_and_certified(tmp_path: Path) -> None:
    source = readme_policy()
    assert len(source.splitlines()) <= 32
    (tmp_path / "skip_periodic.py").write_text(source)
    ran = certify(tmp_path, "--set", "period=3", "--workers", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Core granted" in ran.stdout
    assert vskipper(tmp_path, "verify", "certificate").returncode == 0
    manifest = json.loads((tmp_path / "certificate" / "manifest.json").read_text())
    assert manifest["policy"]["settings"] == {"period": 3}
    assert manifest["granted"] is True


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_policy_gets_one_message_that_says_where_and_what(name: str, tmp_path: Path) -> None:
    source, breakage = broken_policy(name), BROKEN[name]
    file = tmp_path / "skip_periodic.py"
    file.write_text(source)
    ran = certify(tmp_path, "--no-faults", "--workers", "0")
    assert ran.returncode == breakage.code, ran.stdout + ran.stderr
    text = ran.stdout + ran.stderr
    (message,) = (line for line in text.splitlines() if "skip_periodic:SkipPeriodic" in line and breakage.hook in line)
    assert f"{file}:{line_number(source, breakage.line)}" in message
    for word in breakage.words:
        assert word in message


def test_a_failing_property_prints_all_and_its_command_fails_the_same_way(tmp_path: Path) -> None:
    source = readme_policy()
    for old, new in RARE.items():
        source = source.replace(old, new)
    (tmp_path / "skip_periodic.py").write_text(source + PROJECTOR)
    ran = certify(tmp_path, "--set", "period=1", "--no-faults", "--examples", "16", "--workers", "1")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    (frozen,) = (line for line in lines if line.startswith("vskipper FAIL property=model.outputs "))
    assert "clause=SEM-1 reason=wrong_hidden" in frozen
    assert any(line.strip().startswith("step 0: rows=") for line in lines)
    (command,) = {line.strip() for line in lines if line.strip().startswith("vskipper replay ")}
    again = vskipper(tmp_path, *shlex.split(command)[1:])
    assert again.returncode == 1, again.stdout + again.stderr
    assert frozen in again.stdout.splitlines()
