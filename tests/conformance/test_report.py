"""The report: everything a person must see, nothing that a name could smuggle in, the same bytes every time."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conformance.certificate.folder import REPORT
from conformance.certificate.record import Failure, PolicyIdentity
from conformance.certificate.report_view import duration, matrix_view, tape_view
from conformance.clauses import LEVEL_BY_ID
from tests.conformance.sample import FAULTS, MUST_PASS, NEEDS, WAIVER, Run, failed, good_run

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; raises on a tag that does not close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def render(run: Run, folder: Path) -> str:
    run.write(folder)
    return (folder / REPORT).read_text()


def test_it_shows_verdict_environment_clauses_faults_and_a_tape(tmp_path: Path) -> None:
    page = Page(render(good_run(), tmp_path / "cert"))
    for said in ("Core granted", "17 / 17", "34 / 34", "7 min 12 s", "random-skip", "r=0.5", "torch 2.13.0", "3f" * 32):
        assert said in page.text
    for clause in LEVEL_BY_ID["core"].clauses:
        assert clause.id in page.text and clause.text in page.text
    assert all(need.property in page.text for need in NEEDS)
    assert all(fault.fault in page.text and fault.reason in page.text for fault in FAULTS)
    assert page.tags.count("path") == 4 and "PROJECT_ONLY" in page.text
    assert "REDUCED" not in page.text and "Failures" not in page.text and "Waivers" not in page.text


def test_it_says_on_which_runtimes_and_models_the_faults_were_tried(tmp_path: Path) -> None:
    page = Page(render(good_run(), tmp_path / "cert"))
    assert "seeded faults killed, on torch and triton" in page.text
    assert "torch/tiny-llama in float32" in page.text and "triton/tiny-llama in float32" in page.text


def test_a_failure_shows_its_line_tape_plan_and_command(tmp_path: Path) -> None:
    run = good_run().with_result("kv.footprint", failed)
    page = Page(render(run, tmp_path / "cert"))
    failure = failed(run.results[1]).failure
    assert failure is not None
    assert "Core not granted" in page.text
    for part in (failure.line, failure.tape, failure.plan, failure.repro):
        assert part in "".join(page.words)


def test_a_reduced_run_is_stamped(tmp_path: Path) -> None:
    assert "REDUCED" in Page(render(replace(good_run(), kills=()), tmp_path / "cert")).text


def test_a_waiver_is_shown_word_for_word(tmp_path: Path) -> None:
    run = replace(good_run().with_result("kv.footprint", failed), waivers=WAIVER)
    assert WAIVER.strip() in "".join(Page(render(run, tmp_path / "cert")).words)


def test_it_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = Page(render(good_run(), tmp_path / "cert"))
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in ("src", "href") or name.startswith("on")]
    style = "".join(page.words)
    assert "url(" not in style and "@import" not in style


@pytest.mark.parametrize(
    "evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "&lt;b>"]
)
def test_a_name_cannot_become_markup(tmp_path: Path, evil: str) -> None:
    run = good_run()
    run = replace(
        run,
        manifest=replace(
            run.manifest,
            policy=PolicyIdentity(spec=evil, settings={"key": evil}, source_hash="0" * 64),
            machine=replace(run.manifest.machine, platform=evil),
            versions={"python": evil, evil: evil},
        ),
    )
    run = run.with_result("kv.scale", lambda r: replace(failed(r), failure=Failure(line=evil, tape=evil, plan=evil)))
    run = run.with_kill("kv_scale_first", lambda k: replace(k, source=evil))
    page = Page(render(run, tmp_path / "cert"))
    assert not {"script", "img", "b "} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert evil in "".join(page.words)


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    assert render(good_run(), tmp_path / "a") == render(good_run(), tmp_path / "b")


def test_a_cell_says_what_it_stands_for() -> None:
    run = good_run()
    matrix = matrix_view(MUST_PASS, run.kills)
    row = dict(zip((need.property for need in NEEDS), matrix.rows[0].cells, strict=True))
    assert row["kv.complete"].kind == "killer" and "its killer" in row["kv.complete"].title
    assert row["sem.envelope"].kind == "quiet"
    broken = replace(run.kills[0], outcomes={"kv.complete": "killed:other", "sem.envelope": "killed:x"})
    row = dict(zip((need.property for need in NEEDS), matrix_view(MUST_PASS, [broken]).rows[0].cells, strict=True))
    assert (row["kv.complete"].kind, row["sem.envelope"].kind, row["kv.scale"].kind) == ("wrong", "wrong", "absent")


def test_a_tape_is_drawn_action_by_action() -> None:
    tape = tape_view(("RRP", "RAM"), (16, 17))
    assert tape is not None
    assert [(band.name, band.path.count("M"), round(band.share)) for band in tape.bands] == [
        ("RUN", 3, 50),
        ("PROJECT_ONLY", 1, 17),
        ("SKIP_ATTN", 1, 17),
        ("SKIP_MLP", 1, 17),
    ]
    assert [name for name, _ in tape.labels] == ["L16", "L17"]
    assert tape_view((), ()) is None


def test_a_long_tape_is_cut_and_says_so() -> None:
    tape = tape_view(("R" * 500,), ())
    assert tape is not None and tape.rows == 500 and tape.hidden_rows == 404
    assert tape.bands[0].path.count("M") == 96 and tape.labels[0][0] == "#0"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (9.5, "9.5 s"), (59.6, "1 min 0 s"), (432.4, "7 min 12 s")]
)
def test_durations_read_well(seconds: float, said: str) -> None:
    assert duration(seconds) == said
