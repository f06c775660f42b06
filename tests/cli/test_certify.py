"""`vskipper certify`: what it asks of the suite, what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Cli, environment
from tests.signals import hear_all
from vskipper.cli.settings import parse_setting, parse_settings
from vskipper.errors import InputError


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"seen.json"}


def test_a_granted_level_exits_0_and_verifies(faked: Cli, home: Path) -> None:
    done = faked("certify", "random-skip", "--model", "smollm2")
    assert done.returncode == 0, done.stderr
    assert "Core granted" in done.stdout and "34 of 34" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("KV-", "MAP-", "SEM-", "IN-"))]
    assert len(lines) == 12 and all(line[1] == "passed" for line in lines)
    assert names(home) == {"certificate-random-skip-smollm2"}
    assert faked("verify", "certificate-random-skip-smollm2").returncode == 0


def test_every_option_reaches_the_suite(faked: Cli, home: Path) -> None:
    options = "--model m --delta d.safetensors --runtime reference --examples 3 --seed 9 --no-faults --workers 2"
    settings = ["--set", "r=0.5", "--set", "key=token", "--set", "on=true"]
    done = faked("certify", "mine:Policy", *options.split(), *settings, "--out", "deep/er/cert")
    assert done.returncode == 1 and "REDUCED" in done.stdout
    assert names(home / "deep" / "er") == {"cert"}
    seen = json.loads((home / "seen.json").read_text())
    assert not Path(seen["request"].pop("work_dir")).exists()
    assert seen["request"] == {
        "policy": "mine:Policy",
        "model": "m",
        "settings": {"r": 0.5, "key": "token", "on": True},
        "delta": "d.safetensors",
        "runtime": "reference",
        "level": "core",
        "examples": 3,
        "seed": 9,
        "faults": False,
        "workers": 2,
        "dtype": "float32",
        "attention_backend": None,
    }


def test_the_suite_comes_first_on_the_path_and_the_users_folder_next(faked: Cli, home: Path) -> None:
    faked("certify", "random-skip")
    assert json.loads((home / "seen.json").read_text())["path"][:2] == [str(ROOT), str(home)]


def test_a_failure_exits_1_and_is_told_once(faked: Cli) -> None:
    done = faked("certify", "leaks")
    assert done.returncode == 1
    assert done.stdout.count("vskipper FAIL property=kv.footprint") == 1
    assert done.stdout.count("vskipper FAIL property=kv.scale") == 1
    for said in ("L16:RPRPP", "rows=5 padding=3", "vskipper replay AXicY2Bg", "Core not granted"):
        assert said in done.stdout
    assert faked("verify", "certificate-leaks-tiny-llama").returncode == 1


def test_a_broken_policy_is_told_by_one_message(faked: Cli) -> None:
    done = faked("certify", "broken")
    assert done.returncode == 1
    assert done.stdout.count("vskipper FAIL") == 1 and "property=policy.declared" in done.stdout
    assert "killed no fault" not in done.stdout and "REDUCED" not in done.stdout


def test_json_goes_to_standard_output_alone(faked: Cli) -> None:
    done = faked("certify", "random-skip", "--json")
    outcome = json.loads(done.stdout)
    assert outcome["granted"] and len(outcome["results"]) == 17 and len(outcome["kills"]) == 34
    assert Path(outcome["folder"]).name == "certificate-random-skip-tiny-llama"


def test_what_the_suite_prints_stays_out_of_sight_and_the_users_own_log_as_it_is(faked: Cli, home: Path) -> None:
    (home / "cert.log").write_text("mine")
    done = faked("certify", "random-skip", "--out", "cert")
    assert "no event" not in done.stdout + done.stderr
    assert names(home) == {"cert", "cert.log"} and (home / "cert.log").read_text() == "mine"


def test_the_hint_to_verify_is_a_command_that_works(faked: Cli) -> None:
    done = faked("certify", "random-skip", "--out", "it's here; ok")
    *_, hint = shlex.split(done.stdout.splitlines()[-1].partition("re-check: ")[2].removesuffix(")"))
    assert faked("verify", hint).returncode == 0


def test_a_suite_that_dies_shows_its_last_words_and_leaves_no_certificate(faked: Cli, home: Path) -> None:
    done = faked("certify", "dies", "--out", "cert")
    assert done.returncode == 1
    assert "Segmentation fault (not really)" in done.stderr and "code 139" in done.stderr
    assert names(home) == set() and "Traceback" not in done.stderr
    log = Path(done.stderr.split()[-1])
    kept = log.read_text()
    log.unlink()
    # what the suite writes to its two streams may meet on a line
    assert all(said in kept for said in ("a line that is no event", '{"a JSON line": "that is no event"}', "[1, 2]"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["refused"], "vskipper: unknown policy [policy name]: got 'refused', expected random-skip"),
        (["x", "--level", "graph"], "got graph, expected core"),
        (["x", "--set", "novalue"], "[--set]: got novalue, expected KEY=VALUE"),
        (["x", "--examples", "0"], "number [--examples]: got 0, expected an integer from 1 to 100000"),
        (["x", "--examples", "9" * 23], f"got {'9' * 23}, expected an integer from 1 to 100000"),
        (["x", "--examples", "9" * 5000], f"got {'9' * 40}..., expected an integer from 1 to 100000"),
        (["x", "--examples", "1_0"], "got 1_0, expected an integer"),
        (["x", "--seed", "minus"], "number [--seed]: got minus, expected an integer from 0 to 9223372036854775807"),
        (["x", "--seed", str(2**63)], "number [--seed]: got 9223372036854775808"),
        (["x", "--workers", "-1"], "number [--workers]: got -1, expected an integer from 0 to 256"),
        (["x", "--workers", "257"], "number [--workers]: got 257"),
        (["x", "--workers", ""], "number [--workers]: got ''"),
        (["x", "--workers"], "got option '--workers' requires an argument, expected what vskipper --help lists"),
        (["x", "--model", ""], "no value [--model]: got '', expected DIR|NAME"),
        (["x", "--delta", ""], "no value [--delta]: got '', expected FILE"),
        (["x", "--out", " "], "no value [--out]: got ' ', expected DIR"),
        ([""], "no value [POLICY]: got ''"),
        ([":"], "policy [POLICY]: got :, expected a policy's name, or package.module:Class"),
        (["mine:"], "policy [POLICY]: got mine:, expected"),
        ([":Mine"], "policy [POLICY]: got :Mine, expected"),
        ([".mine:Mine"], "policy [POLICY]: got .mine:Mine, expected"),
        (["x", "--runtime", "nope"], "[--runtime]: got 'nope', expected reference, torch, triton, sglang, server"),
        (["x", "--runtime", "sglang-cuda"], "[--runtime]: got 'sglang-cuda', expected reference"),
        (["x", "--runtime", "torch", "--device", "cuda"], "runtime [--runtime]: got torch, expected sglang, which"),
        (["x", "--device", "tpu"], "unknown device [--device]: got 'tpu', expected cpu, cuda"),
        (["x", "--out", "mine"], "is not a certificate and is left alone"),
        (["x", "--out", "/proc/foo"], "certificate folder [/proc/foo]: got No such file"),
        (["x", "--out", "/etc/passwd/x"], "certificate folder [/etc/passwd/x]: got Not a directory"),
        (["x", "--out", "/"], "is not a certificate and is left alone"),
        (["x", "--out", "a" * 250], "got File name too long"),
        (["x", "--out", f"a/{'b' * 300}/c"], "got File name too long"),
        (["refused", "--out", "a/b/c/d"], "unknown policy"),
        (["x", "--set", "a=1", "--set", "a=2"], "got a twice"),
        (["x", "--set", "a=NaN"], "--set a"),
        (["x", "--nonsense"], "command line [vskipper certify]: got no such option: --nonsense"),
        (["x", "y"], "command line [vskipper certify]: got unexpected extra argument(s) (y), expected what"),
        ([], "command line [vskipper certify]: got missing argument 'POLICY', expected what vskipper certify --help"),
    ],
)
def test_bad_input_is_one_line_and_exits_2(faked: Cli, home: Path, arguments: list[str], said: str) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.txt").write_text("ten years")
    done = faked("certify", *arguments)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1 and done.stdout == ""
    assert names(home) == {"mine"} and (home / "mine" / "thesis.txt").read_text() == "ten years"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_suite_and_leaves_nothing(home: Path, tmp_path: Path, number: signal.Signals) -> None:
    lists, temporary = tmp_path / "lists", tmp_path / "temporary"
    lists.mkdir()
    temporary.mkdir()
    command = [sys.executable, str(ROOT / "tests" / "cli" / "drive.py"), str(lists), "certify", "hangs"]
    variables = environment() | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(command, cwd=home, env=variables, stderr=subprocess.PIPE, text=True, preexec_fn=hear_all)
    deadline = time.monotonic() + 60
    while not ((home / "hanging").is_file() and (home / "hanging").read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert re.search(r"vskipper: interrupted after \d+ of \d+ items; under way: last@torch/tiny for \d+ s\n$", said)
    with pytest.raises(ProcessLookupError):
        os.kill(int((home / "hanging").read_text()), 0)
    assert names(home) == {"hanging"} and names(temporary) == set()


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("r=0.5", ("r", 0.5)),
        ("key=token", ("key", "token")),
        ("a=b=c", ("a", "b=c")),
        ("x=", ("x", "")),
        ("n=1", ("n", 1)),
    ],
)
def test_a_setting_is_json_where_it_can_be(text: str, setting: tuple[str, object]) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["", "r", "=1", "1r=2", "a b=c"])
def test_a_setting_needs_a_name(text: str) -> None:
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_setting(text)


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e999", '{"a": [NaN]}', r'"\ud800"', "\udcff", "[" * 17 + "]" * 17, "[" * 9999 + "]" * 9999],
)
def test_a_value_that_no_certificate_can_hold_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="--set r"):
        parse_setting(f"r={value}")


def test_a_key_is_given_once() -> None:
    assert parse_settings(["a=1", "b=2"]) == {"a": 1, "b": 2}
    with pytest.raises(InputError, match="a twice"):
        parse_settings(["a=1", "b=2", "a=1"])
