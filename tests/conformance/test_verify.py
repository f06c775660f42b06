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

from conformance.certificate.folder import (
    FILES,
    KILLS,
    MANIFEST,
    REPORT,
    RESULTS,
    SUMS,
    WAIVERS,
    dump,
    file_texts,
    sums_text,
)
from conformance.certificate.judge import Decision
from conformance.certificate.record import Kill, Manifest, Result
from conformance.certificate.verify import Verdict, verify
from tests.conformance.sample import FAULTS, MUST_PASS, WAIVER, failed, good_run
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
    assert verdict.runtimes == ("torch", "triton")


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
    (MANIFEST, manifest(contract_version=1.0), "1.0 is not of type 'integer'"),
    (MANIFEST, manifest(contract_version=True), "True is not of type 'integer'"),
    (MANIFEST, lambda m: m["model"].update(digest="a1" * 32 + "\n"), "model.digest"),
    (MANIFEST, manifest(started="2026-01-31T25:00:00Z"), "started"),
    (MANIFEST, lambda m: m["examples"].update({"kv.complete": 10**9 + 1}), "examples.kv.complete"),
    (RESULTS, result(0, examples=10**9 + 1), "examples"),
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
    (KILLS, kill(0, runtime="sglang"), "tried on sglang/tiny-llama in float32, expected torch/tiny-llama in float32"),
    (KILLS, kill(0, model="smollm2"), "tried on torch/smollm2"),
    (KILLS, kill(0, dtype="bfloat16"), "in bfloat16, expected torch/tiny-llama in float32"),
    (KILLS, kill(0, attention_backend="fa3"), "in float32 with fa3, expected"),
    (KILLS, lambda k: k["kills"][0].pop("runtime"), "'runtime' is a required property"),
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


@pytest.mark.parametrize(("version", "said"), [("9.9.9", "vskipper==9.9.9"), ("9\n\x1b[2J", r"'9\n\x1b[2J'")])
def test_a_certificate_of_another_suite_version_is_refused_with_the_version_to_install(
    folder: Path, version: str, said: str
) -> None:
    edit(folder, MANIFEST, manifest(suite_version=version, a_field_of_that_version=1))
    refused(folder, said)


def forge(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change one record, then write everything anew as certify does, report and hashes included."""
    edit(folder, name, change)
    results = tuple(Result.from_json(json.loads(line)) for line in (folder / RESULTS).read_text().splitlines())
    kills = tuple(Kill.from_json(raw) for raw in json.loads((folder / KILLS).read_text())["kills"])
    said = Manifest.from_json(json.loads((folder / MANIFEST).read_text()))
    decision = Decision(reduced=False, reasons=())
    texts = file_texts(said, results, kills, (folder / WAIVERS).read_text(), MUST_PASS, decision)
    for file, text in texts.items():
        (folder / file).write_text(text)
    rehash(folder)


def everywhere(**fields: Any) -> Callable[[list[dict[str, Any]]], Any]:
    return lambda records: [record.update(fields) for record in records]


def outcomes(index: int, change: Callable[[dict[str, str]], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda record: change(record["kills"][index]["outcomes"])


ONLY_NAMED = next(index for index, fault in enumerate(FAULTS) if fault.only_named)
FORGED = [
    (RESULTS, result(0, runtime="triton"), "kv.complete (KV-1): runtime: got triton, expected torch"),
    (RESULTS, result(0, runtime="torch,torch"), "runtime: got torch,torch, expected torch"),
    (RESULTS, result(4, runtime="torch"), "map.partition (MAP-1): runtime: got torch, expected torch,triton"),
    (RESULTS, result(8, runtime="torch,triton"), "sem.envelope (SEM-1): runtime: got torch,triton, expected torch"),
    (RESULTS, result(8, model="tiny-llama"), "sem.envelope (SEM-1): model: got tiny-llama, expected smollm2"),
    (RESULTS, everywhere(model="alien"), "kv.complete (KV-1): model: got alien, expected tiny-llama"),
    (MANIFEST, manifest(runtimes=["reference"]), "runtime reference: a control, which grants no level"),
    (MANIFEST, manifest(runtimes=["reference", "torch", "triton"]), "runtime reference: a control"),
    (MANIFEST, manifest(runtimes=["triton"]), "kv.complete (KV-1): runtime: got torch, expected triton"),
    (MANIFEST, manifest(runtimes=["torch"]), "runtimes: got torch, expected torch, triton"),
    (RESULTS, result(8, margin=None), "sem.envelope (SEM-1): passed without a margin"),
    (RESULTS, result(0, margin=0.5), "kv.complete (KV-1): passed with a margin of 0.5, and it compares bits"),
    (RESULTS, result(0, seconds=0), "kv.complete (KV-1): passed in no time"),
    (MANIFEST, manifest(seconds=0), "seconds: 0"),
    (MANIFEST, manifest(sample_tape=[]), "sample tape of 0 layers, expected 26"),
    (MANIFEST, lambda m: m["model"].update(routed_layers=[]), "no routed layer"),
    (MANIFEST, manifest(started="2999-01-01T00:00:00Z"), "started: 2999-01-01T00:00:00Z is in the future"),
    (
        MANIFEST,
        lambda m: m["model"].update(name="smollm2\nall holds"),
        r"model.name: not printable: smollm2\nall holds",
    ),
    (MANIFEST, lambda m: m["policy"].update(spec="x\x1b[2J"), r"policy.spec: not printable: x\x1b[2J"),
    (KILLS, outcomes(0, lambda o: o.pop("work.counts")), "outcomes: work.counts is missing"),
    (KILLS, outcomes(0, lambda o: o.update({"made.up": "quiet"})), "outcomes: made.up is not expected"),
    (KILLS, outcomes(0, lambda o: o.update({"made\nup": "quiet"})), r"outcomes: made\nup is not expected"),
    (
        KILLS,
        outcomes(ONLY_NAMED, lambda o: o.update({"kv.provenance": "quiet"})),
        "outcomes: kv.provenance is not expected",
    ),
]


@pytest.mark.parametrize(("name", "change", "said"), FORGED)
def test_a_changed_record_is_refused_although_hashes_and_report_fit(
    folder: Path, name: str, change: Callable[[Any], None], said: str
) -> None:
    forge(folder, name, change)
    refused(folder, said)


def test_a_run_of_the_oracle_alone_is_a_control(folder: Path) -> None:
    forge(folder, RESULTS, everywhere(runtime="reference"))
    forge(folder, MANIFEST, manifest(runtimes=["reference"]))
    refused(folder, "runtime reference: a control, which grants no level")


@pytest.mark.parametrize("name", [MANIFEST, REPORT, SUMS])
def test_what_cannot_be_read_cannot_be_judged(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *args, **kwargs)

    real_open = Path.open
    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(InputError, match=rf"cannot be read \[.*{name}\]: got Permission denied"):
        judge(folder)


def test_a_level_without_a_must_pass_list_is_refused(folder: Path) -> None:
    edit(folder, MANIFEST, manifest(level="serving"))
    assert "got serving" in verify(folder).refusals[0]


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
    command = "from tests.conformance.sample import MUST_PASS; from conformance.certificate.verify import verify; "
    command += "import sys; from pathlib import Path; sys.exit(not verify(Path(sys.argv[1]), MUST_PASS).ok)"
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path / "cert")],
        env={**os.environ, "PYTHONPATH": f"{stubs}{os.pathsep}{Path.cwd()}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
