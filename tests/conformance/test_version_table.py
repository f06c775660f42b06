"""The table of levels by engine version: what certificates grant, and what is missing, refused or out of place."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conformance import version_table
from conformance.certificate.folder import MANIFEST, RESULTS
from conformance.certificate.record import UNSUPPORTED, Status
from conformance.certificate.verify import verify
from conformance.version_table import HEADING, main
from tests.conformance.sample import MUST_PASS, good_run
from vskipper.errors import InputError

DOCUMENT = f"# Versions\n\n{HEADING}\n\nWords.\n\n| old |\n|---|\n| row |\n\n## Next\n\n| kept |\n"


@pytest.fixture
def certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(version_table, "verify", partial(verify, must_pass=MUST_PASS))
    monkeypatch.setattr(version_table, "RUNTIME", good_run().manifest.runtimes[0])
    monkeypatch.setattr(version_table, "LEVELS", {"core": "core", "lifecycle": "core"})
    for name, version in (("sglang0516-cpu", "0.5.16"), ("sglang0509-cpu", "0.5.9")):
        for level in version_table.LEVELS:
            run = good_run()
            versions = {**run.manifest.versions, "sglang": version}
            replace(run, manifest=replace(run.manifest, versions=versions)).write(tmp_path / name / level)
    (tmp_path / "versions.md").write_text(DOCUMENT)
    return tmp_path


def told(certificates: Path) -> tuple[int, list[str]]:
    code = main([str(certificates), str(certificates / "versions.md")])
    return code, (certificates / "versions.md").read_text().splitlines()


def test_every_version_has_a_line_in_order(certificates: Path) -> None:
    code, lines = told(certificates)
    assert code == 0
    rows = [line for line in lines if line.startswith("| 0.")]
    assert [row.split(" | ")[0] for row in rows] == ["| 0.5.9", "| 0.5.16"]
    assert all(row.count("granted: ") == 2 for row in rows)
    assert "| old |" not in lines and "| kept |" in lines and "Words." in lines


def test_faults_whose_killer_the_engine_cannot_run_are_not_counted_as_killed(certificates: Path) -> None:
    run = good_run().with_result("map.layout", lambda result: replace(result, status=Status.UNSUPPORTED))
    for kind in ("first", "second"):
        run = run.with_kill(
            f"map_layout_{kind}",
            lambda kill: replace(kill, outcomes={**kill.outcomes, "map.layout": UNSUPPORTED}).rejudged(),
        )
    run.write(certificates / "sglang0516-cpu" / "core")
    row = next(line for line in told(certificates)[1] if "16 properties" in line)
    assert "granted: 16 properties, 32 faults killed, 1 unsupported" in row and "34 faults killed" in row


def test_writing_twice_changes_nothing(certificates: Path) -> None:
    assert told(certificates) == told(certificates)


def test_what_is_refused_or_missing_is_said_and_the_exit_code_is_1(certificates: Path) -> None:
    (certificates / "sglang0516-cpu" / "core" / RESULTS).write_text("")
    for file in (certificates / "sglang0509-cpu" / "lifecycle").iterdir():
        file.unlink()
    code, lines = told(certificates)
    assert code == 1
    assert any("| 0.5.16 |" in line and "**refused**" in line for line in lines)
    assert any("| 0.5.9 |" in line and "**not run**" in line for line in lines)


def test_a_certificate_of_another_level_or_runtime_grants_nothing(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_table, "LEVELS", {"core": "core", "lifecycle": "lifecycle"})
    code, lines = told(certificates)
    assert code == 1 and sum("**another**: level core on" in line for line in lines) == 2
    monkeypatch.setattr(version_table, "RUNTIME", "other")
    code, lines = told(certificates)
    assert code == 1 and not any("granted" in line for line in lines)


def test_a_broken_manifest_costs_its_own_cell(certificates: Path) -> None:
    folder = certificates / "sglang0516-cpu" / "core"
    (folder / "SHA256SUMS").unlink()
    (folder / MANIFEST).write_text("{")
    code, lines = told(certificates)
    row = next(line for line in lines if "| 0.5.16 |" in line)
    assert code == 1 and ("**unreadable**" in row or "**refused**" in row) and row.count("granted") == 1


def test_a_document_of_other_bytes_is_bad_input(certificates: Path) -> None:
    (certificates / "versions.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="a text in UTF-8"):
        main([str(certificates), str(certificates / "versions.md")])


def test_no_certificates_and_no_place_are_bad_input(certificates: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no certificates"):
        main([str(certificates / "empty"), str(certificates / "versions.md")])
    (certificates / "versions.md").write_text("# Versions\n")
    with pytest.raises(InputError, match=r"no table"):
        told(certificates)
    with pytest.raises(InputError, match=r"got 1 arguments, expected CERTIFICATES DOCUMENT"):
        main([str(certificates)])
    with pytest.raises(InputError, match=r"no document"):
        main([str(certificates), str(certificates / "none.md")])


def test_one_version_that_failed_loses_no_other(certificates: Path) -> None:
    (certificates / "sglang0522-cpu").mkdir()
    (certificates / "sglang0509-cpu" / "core" / "manifest.json").write_text("{")
    code, lines = told(certificates)
    rows = [line for line in lines if line.startswith("| 0.")]
    assert code == 1 and [row.split(" | ")[0] for row in rows] == ["| 0.5.9", "| 0.5.16", "| 0.5.22"]
    assert "**refused**" in rows[0] and rows[1].count("granted") == 2 and rows[2].count("**not run**") == 2
