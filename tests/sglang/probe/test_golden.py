"""Golden answers: one file an SGLang release, compared with the real trees where there are any.

VSKIPPER_SGLANG_TREES names a folder that holds trees by version: FOLDER/0.5.16/sglang, as `pip install --no-deps
--target FOLDER/0.5.16 sglang==0.5.16` leaves it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine import needs_sglang
from tests.sglang.probe.trees import NEW, SPECS, write
from vskipper.sglang.checks.table import REFUSALS
from vskipper.sglang.probe import UNKNOWN, installed_root, probe_tree
from vskipper.sglang.probe.areas.loading import REFUSED
from vskipper.sglang.probe.golden import answers, main, read_all
from vskipper.sglang.probe.seam import Need
from vskipper.sglang.probe.table import render

GOLDEN = Path(__file__).parent / "golden"
TREES = os.environ.get("VSKIPPER_SGLANG_TREES")
ALL = read_all(GOLDEN)
VERSIONS = [golden["version"] for golden in ALL]
RELEASES = [f"0.5.{number}" for number in range(7, 24)]
FIRST_SUPPORTED = RELEASES.index("0.5.11")


def test_every_release_has_its_file() -> None:
    assert set(RELEASES) <= set(VERSIONS)
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(VERSIONS)


def test_no_golden_answer_is_unknown_and_none_is_missing() -> None:
    for golden in ALL:
        assert golden["seams"].keys() == SPECS.keys(), golden["version"]
        assert UNKNOWN not in golden["seams"].values(), golden["version"]


def test_every_word_is_some_release_s() -> None:
    seen = {(name, word) for golden in ALL for name, word in golden["seams"].items()}
    known = {(name, shape.word) for name, (_, spec) in SPECS.items() for shape in spec.shapes}
    assert seen == known


@pytest.mark.parametrize("golden", ALL, ids=VERSIONS)
def test_the_verdict_follows_from_the_words(golden: dict[str, object]) -> None:
    words = golden["seams"]
    assert isinstance(words, dict)
    served = {
        name: words[name] in [each.word for each in spec.shapes if each.served] for name, (_, spec) in SPECS.items()
    }
    always = [name for name, (_, spec) in SPECS.items() if spec.need == Need.ALWAYS]
    graphs = [name for name, (_, spec) in SPECS.items() if spec.need == Need.GRAPHS]
    assert golden["supported"] == all(served[name] for name in always)
    assert golden["graphs_supported"] == all(served[name] for name in always + graphs)


def test_supported_is_0_5_11_and_later() -> None:
    supported = {golden["version"] for golden in ALL if golden["supported"]}
    assert supported == set(VERSIONS[VERSIONS.index("0.5.11") :])
    assert set(RELEASES[FIRST_SUPPORTED:]) <= supported


@pytest.mark.skipif(not TREES, reason="VSKIPPER_SGLANG_TREES names no folder of SGLang trees")
@pytest.mark.parametrize("golden", ALL, ids=VERSIONS)
def test_a_real_tree_answers_as_its_golden_file(golden: dict[str, object]) -> None:
    tree = Path(str(TREES)) / str(golden["version"])
    if not tree.is_dir():
        pytest.skip(f"no tree {tree}")
    assert answers(probe_tree(tree)) == golden


@needs_sglang
def test_the_installed_one_answers_as_its_golden_file() -> None:
    report = probe_tree(installed_root())
    assert answers(report) in ALL, [seam for seam in report.seams if seam.word == UNKNOWN]


def test_a_golden_file_is_written_as_it_is_read(tmp_path: Path) -> None:
    root = write(NEW, tmp_path / "site")
    (tmp_path / "golden").mkdir()
    main([str(tmp_path / "golden"), str(root)])
    assert read_all(tmp_path / "golden") == [answers(probe_tree(root))]


def test_the_table_has_each_needed_seam_and_each_change() -> None:
    table = render(ALL)
    for _, spec in SPECS.values():
        assert (f"| {spec.name} |" in table) == (spec.need == Need.ALWAYS)
    assert "`residual-argument` 0.5.7 to 0.5.20; `boundaries` 0.5.21 to 0.5.23 |" in table
    assert "*environment-only* 0.5.7 to 0.5.10.post1; `entry-points` 0.5.11 to 0.5.23 |" in table
    assert "| decode-runner |" in render(ALL, Need.GRAPHS)


def test_refused_arguments_are_probed_by_the_names_that_are_refused() -> None:
    assert {name for names in REFUSED.values() for name in names} <= {refusal.attribute for refusal in REFUSALS}
