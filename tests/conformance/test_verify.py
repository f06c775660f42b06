"""Re-checking a certificate: every change is refused, whether or not its author recomputed the hashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.certificate import FILES, KILLS, MANIFEST, REPORT, RESULTS, SUMS, WAIVERS, dump, sums_text
from conformance.verify import Verdict, verify
from tests.conformance.sample import MUST_PASS, WAIVER, failed, good_run
from vskipper.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    replace(good_run().with_result("kv.footprint", failed), waivers=WAIVER).write(tmp_path / "cert")
    return tmp_path / "cert"


def judge(folder: Path) -> Verdict:
    return verify(folder, MUST_PASS)


def rehash(folder: Path) -> None:
    (folder / SUMS).write_text(sums_text({name: (folder / name).read_bytes().decode() for name in FILES}))


def refused(folder: Path, said: str) -> None:
    refusals = judge(folder).refusals
    assert any(said in refusal for refusal in refusals), refusals
    assert all("\n" not in refusal for refusal in refusals)


def test_a_good_certificate_holds(folder: Path) -> None:
    verdict = judge(folder)
    assert verdict.ok, verdict.refusals
    assert (verdict.level, verdict.policy, verdict.model, verdict.waivers) == ("Core", "random-skip", "smollm2", 1)


@pytest.mark.parametrize("name", [*FILES, SUMS])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_one_changed_byte_is_refused(folder: Path, name: str, place: float) -> None:
    data = bytearray((folder / name).read_bytes())
    data[int(place * (len(data) - 1))] ^= 1
    (folder / name).write_bytes(data)
    assert not judge(folder).ok


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", [" ", "\n"])
def test_one_added_byte_is_refused_although_the_hashes_fit(folder: Path, name: str, suffix: str) -> None:
    with (folder / name).open("a") as file:
        file.write(suffix)
    rehash(folder)
    # a blank at the end of the waivers says nothing, and is theirs to say
    assert judge(folder).ok == (name == WAIVERS)


@pytest.mark.parametrize("name", [name for name in FILES if name != MANIFEST])
def test_a_missing_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, f"{name}: missing")


@pytest.mark.parametrize("name", ["extra.txt", ".hidden", "folder"])
def test_a_file_too_many_is_refused(folder: Path, name: str) -> None:
    (folder / name).mkdir() if name == "folder" else (folder / name).write_text("")
    refused(folder, f"{name}: unknown file")


def test_a_link_is_refused(folder: Path) -> None:
    (folder / REPORT).rename(folder.parent / REPORT)
    (folder / REPORT).symlink_to(folder.parent / REPORT)
    refused(folder, f"{REPORT}: not a regular file")


def test_a_pipe_is_refused_and_not_read(folder: Path) -> None:
    (folder / REPORT).unlink()
    os.mkfifo(folder / REPORT)
    refused(folder, f"{REPORT}: not a regular file")


@pytest.mark.parametrize("change", [str.upper, lambda text: text[66:], lambda text: text.replace("  ", " "), str.strip])
def test_a_damaged_list_of_hashes_is_refused(folder: Path, change: Callable[[str], str]) -> None:
    (folder / SUMS).write_text(change((folder / SUMS).read_text()))
    refused(folder, SUMS)


def edit(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change one record and recompute the hashes; `change` gets the list of results, or the parsed file."""
    text = (folder / name).read_text()
    if name == RESULTS:
        records = [json.loads(line) for line in text.splitlines()]
        change(records)
        (folder / name).write_text("".join(dump(record) for record in records))
    else:
        record = json.loads(text)
        change(record)
        (folder / name).write_text(dump(record, indent=2 if name == MANIFEST else 1))
    rehash(folder)


def result(index: int, **fields: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda records: records[index].update(fields)


def kill(index: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda record: record["kills"][index].update(fields)


def manifest(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda record: record.update(fields)


CONSISTENT = [
    (RESULTS, lambda r: r.pop(), "property input.refused is missing"),
    (RESULTS, lambda r: r.append(r[0]), "property kv.complete stands 2 times"),
    (RESULTS, lambda r: r.reverse(), "order, entry 1"),
    (RESULTS, lambda r: r.insert(0, r.pop(1)), "order, entry 1"),
    (RESULTS, result(0, property="kv.made_up"), "kv.made_up is not on the must-pass list"),
    (RESULTS, result(0, clause="KV-2"), "clause: got KV-2, expected KV-1"),
    (RESULTS, result(0, status="skipped"), "skipped"),
    (RESULTS, result(0, status="failed"), "failure"),
    (RESULTS, result(0, status="vacuous"), "kv.complete (KV-1): vacuous"),
    (RESULTS, result(0, status="blocked"), "kv.complete (KV-1): blocked"),
    (RESULTS, result(0, status="unsupported"), "the level does not do without it"),
    (RESULTS, result(1, status="passed"), "matches no expected failure"),
    (RESULTS, result(1, status="passed", failure=None), "matches no expected failure"),
    (RESULTS, result(2, status="expected_failure"), "expected failure without a waiver"),
    (RESULTS, result(0, counters={"project_rows": 0, "skip_rows": 3}), "counter project_rows is 0"),
    (RESULTS, result(0, counters={"skip_rows": 3}), "without its vacuity counter project_rows"),
    (RESULTS, result(0, counters={"project_rows": -1, "skip_rows": 3}), "-1"),
    (RESULTS, result(0, examples=39), "39 examples, declared 40"),
    (RESULTS, result(8, margin=1.5), "margin of 1.5"),
    (RESULTS, result(0, runtime="reference"), "runtime reference is not in the manifest"),
    (RESULTS, result(0, note="hello"), "note"),
    (MANIFEST, manifest(granted=False), "level Core is not granted"),
    (MANIFEST, manifest(reduced=True), "reduced: got True, expected False"),
    (MANIFEST, manifest(level="gold"), "gold"),
    (MANIFEST, manifest(contract_version=0), "contract_version"),
    (MANIFEST, manifest(started="2026-02-30T00:00:00Z"), "started"),
    (MANIFEST, manifest(started="2030-01-01T00:00:00Z"), "expired on 2027-01-01"),
    (MANIFEST, manifest(policy={"spec": "better", "settings": {}, "source_hash": "0" * 64}), REPORT),
    (MANIFEST, manifest(sample_tape=["RRP"]), "sample tape of 1 layers, expected 26"),
    (MANIFEST, manifest(sample_tape=["RX"]), "sample_tape"),
    (MANIFEST, manifest(seed=-1), "seed"),
    (MANIFEST, lambda m: m.pop("machine"), "machine"),
    (MANIFEST, lambda m: m["examples"].update({"kv.complete": 3}), "REDUCED"),
    (KILLS, lambda k: k["kills"].clear(), "no seeded fault was run"),
    (KILLS, lambda k: k["kills"].pop(), "fault input_refused_second is missing"),
    (KILLS, lambda k: k["kills"].reverse(), "kill matrix: order"),
    (KILLS, kill(0, killed=False), "verdict: got survived"),
    (KILLS, kill(0, quiet_ok=False), "not quiet"),
    (KILLS, kill(0, killer="kv.scale"), "got killer kv.scale"),
    (KILLS, kill(0, reason_expected="anything"), "for anything"),
    (KILLS, kill(0, quiet=[]), "quiet -"),
    (KILLS, lambda k: k["kills"][0]["outcomes"].update({"kv.complete": "quiet"}), "got quiet, expected killed"),
    (KILLS, lambda k: k["kills"][0]["outcomes"].pop("kv.complete"), "got not run, expected killed"),
    (KILLS, lambda k: k["kills"][0]["outcomes"].update({"sem.envelope": "killed:x"}), "expected quiet"),
    (KILLS, lambda k: k["kills"][0]["outcomes"].update({"kv.complete": "exploded"}), "exploded"),
    (KILLS, lambda k: k["kills"][0]["outcomes"].update({"kv.scale": "killed:not_so"}), REPORT),
]


@pytest.mark.parametrize(("name", "change", "said"), CONSISTENT)
def test_a_changed_record_is_refused_although_the_hashes_fit(
    folder: Path, name: str, change: Callable[[Any], None], said: str
) -> None:
    edit(folder, name, change)
    refused(folder, said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kv.footprint", "kv.scale", "matches no expected failure"),
        ('"KV-2"', '"KV-1"', "matches no expected failure"),
        ("2027-01-01", "2026-01-31", "expired on 2026-01-31"),
        ("evidence", "excuse", "waiver fields"),
        ("https", "gopher", "issue"),
        ("[[waiver]]", "[[waiver", "not TOML"),
        ("300", "301", REPORT),
    ],
)
def test_a_changed_waiver_is_refused_although_the_hashes_fit(folder: Path, old: str, new: str, said: str) -> None:
    (folder / WAIVERS).write_text((folder / WAIVERS).read_text().replace(old, new))
    rehash(folder)
    refused(folder, said)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (REPORT, "Core granted", "Core granted with honours", "differs from what the records render to"),
        (MANIFEST, '"seed": 0', '"seed": 0, "seed": 1', "a key stands twice"),
        (MANIFEST, '"seconds": 432.4', '"seconds": NaN', "not finite"),
        (MANIFEST, '"seconds": 432.4', '"seconds": 1e999', "not finite"),
        (MANIFEST, "{", "[", "not JSON"),
        (RESULTS, '"margin": 0.31', '"margin": Infinity', "not finite"),
        (RESULTS, "\n", "\n\n", f"{RESULTS}:2: not JSON"),
        (KILLS, '"kills"', '"kill"', "'kill' was unexpected"),
    ],
)
def test_a_changed_text_is_refused_although_the_hashes_fit(
    folder: Path, name: str, old: str, new: str, said: str
) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    rehash(folder)
    refused(folder, said)


def test_a_text_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / RESULTS).write_bytes(b"\xff")
    refused(folder, "not UTF-8 at byte 0")


def test_deep_nesting_is_refused(folder: Path) -> None:
    (folder / KILLS).write_text("[" * 200_000)
    refused(folder, f"{KILLS}: not JSON")


def test_an_honest_failure_is_refused_with_its_reason(tmp_path: Path) -> None:
    good_run().with_result("kv.scale", failed).write(tmp_path / "cert")
    assert judge(tmp_path / "cert").refusals == (
        "manifest.json: level Core is not granted",
        "kv.scale (KV-4): failed",
    )


def test_a_certificate_of_another_suite_version_is_refused_with_the_version_that_can(folder: Path) -> None:
    edit(folder, MANIFEST, manifest(suite_version="9.9.9"))
    refused(folder, "written by suite 9.9.9")
    refused(folder, "verify it with vskipper==9.9.9")


def test_a_level_without_a_must_pass_list_is_refused(folder: Path) -> None:
    edit(folder, MANIFEST, manifest(level="graph"))
    assert "got graph" in verify(folder).refusals[0]


def test_a_newer_contract_cannot_be_judged(folder: Path) -> None:
    edit(folder, MANIFEST, lambda record: record.update(contract_version=2, a_field_of_the_future=[1]))
    with pytest.raises(InputError, match="newer contract"):
        judge(folder)


@pytest.mark.parametrize("kind", ["absent", "file", "empty", "other"])
def test_what_is_no_certificate_cannot_be_judged(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "cert"
    if kind == "file":
        target.write_text("hello")
    elif kind != "absent":
        target.mkdir()
    if kind == "other":
        (target / MANIFEST).write_text("{}")
    with pytest.raises(InputError, match="not a certificate"):
        judge(target)


def test_neither_torch_nor_numpy_is_imported(tmp_path: Path) -> None:
    stubs = tmp_path / "stubs"
    for name in ("torch", "numpy", "triton", "hypothesis"):
        (stubs / name).mkdir(parents=True)
        (stubs / name / "__init__.py").write_text(f"raise ImportError('{name} is not there')")
    good_run().write(tmp_path / "cert")
    command = "from tests.conformance.sample import MUST_PASS; from conformance.verify import verify; import sys; "
    command += "from pathlib import Path; sys.exit(not verify(Path(sys.argv[1]), MUST_PASS).ok)"
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "cert")],
        env={**os.environ, "PYTHONPATH": f"{stubs}{os.pathsep}{Path.cwd()}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
