"""A report of a whole tree: where it may lie, what it says, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.sglang.probe.trees import NEW, OLD, edited, write
from vskipper.cli.main import run
from vskipper.errors import InputError
from vskipper.sglang.probe import UNKNOWN, installed_root, probe_tree, require
from vskipper.sglang.probe.seam import Need

METADATA = "Metadata-Version: 2.1\nName: sglang\nVersion: 7.8.9\n"
BROKEN = edited(NEW, "srt/models/llama.py", "self, weights", "self, other, weights")


def wheel(folder: Path, path: Path) -> Path:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return path


def test_a_tree_a_package_and_a_wheel_answer_alike(tmp_path: Path) -> None:
    root = write(NEW, tmp_path / "site")
    report = probe_tree(root)
    assert (report.version, report.root, report.supported, report.unknown) == ("0.5.23", str(root), True, ())
    assert probe_tree(root / "sglang") == report
    packed = probe_tree(wheel(root, tmp_path / "sglang-0.5.23-py3-none-any.whl"))
    assert (packed.version, packed.seams) == (report.version, report.seams)


def test_the_version_stands_beside_where_it_does_not_stand_within(tmp_path: Path) -> None:
    root = write(edited(NEW, "_version.py", "", None), tmp_path / "site")
    assert probe_tree(root).version == UNKNOWN
    (root / "sglang-7.8.9.dist-info").mkdir()
    (root / "sglang-7.8.9.dist-info" / "METADATA").write_text(METADATA)
    assert probe_tree(root).version == "7.8.9"
    assert probe_tree(wheel(root, tmp_path / "one.whl")).version == "7.8.9"


def test_what_is_only_recorded_can_be_left_out(tmp_path: Path) -> None:
    root = write(NEW, tmp_path)
    whole, needed = probe_tree(root), probe_tree(root, needed_only=True)
    assert needed.seams == tuple(seam for seam in whole.seams if seam.need != Need.RECORDED)
    assert len(needed.seams) < len(whole.seams)


def test_require_names_every_seam_that_cannot_be_used(tmp_path: Path) -> None:
    files = edited(BROKEN, "srt/plugins/__init__.py", "", None)
    report = probe_tree(write(files, tmp_path))
    with pytest.raises(InputError) as raised:
        require(report)
    error = raised.value
    assert "0.5.23" in error.what and "plugin-group, model-weights" in error.what
    assert "sglang/srt/plugins/__init__.py" in error.where and "sglang/srt/models/llama.py:" in error.where
    assert "plugin-group: environment-only" in error.got
    assert "model-weights: unknown ((self, other, weights))" in error.got
    assert "plugin-group: entry-points" in error.expected
    assert "model-weights: LlamaForCausalLM.load_weights(self, weights) (pairs)" in error.expected
    assert [seam.name for seam in report.unknown] == ["model-weights"]


def test_graphs_are_required_only_where_they_are_captured(tmp_path: Path) -> None:
    report = probe_tree(write(OLD, tmp_path))
    require(report)
    with pytest.raises(InputError, match="with graphs, for its fa3-metadata"):
        require(report, graphs=True)
    require(probe_tree(write(NEW, tmp_path / "new")), graphs=True)


@pytest.mark.parametrize("content", [b"def \xff(): ...", b"class LlamaForCausalLM(\n"])
def test_a_file_that_is_no_python_is_unknown(tmp_path: Path, content: bytes) -> None:
    root = write(NEW, tmp_path)
    (root / "sglang" / "srt" / "models" / "llama.py").write_bytes(content)
    found = {seam.name: seam for seam in probe_tree(root).unknown}
    assert "model-forward" in found and "llama.py" in found["model-forward"].where


@pytest.mark.parametrize("content", [b"\xff", b"class KVWriteLoc(:\n    def for_batch(a b): ...\n"])
def test_what_cannot_be_read_is_not_taken_for_absent(tmp_path: Path, content: bytes) -> None:
    root = write(OLD, tmp_path)
    for name in ("srt/runtime_context.py", "srt/model_executor/breakable_cuda_graph_runner.py"):
        (root / "sglang" / name).write_bytes(content)
    words = {seam.name: seam.word for seam in probe_tree(root).seams}
    assert words["prefill-veto"] == UNKNOWN
    assert words["current-arguments"] == (UNKNOWN if content == b"\xff" else "module")


def test_a_recorded_seam_may_be_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(edited(NEW, "srt/mem_cache/registry.py", "unified", "another"), tmp_path)
    assert run(["probe", str(root)]) == 0
    told = capsys.readouterr().out
    assert "cache-tree: unknown" in told and "also with captured graphs" in told


def test_the_command_exits_by_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(NEW, tmp_path / "good"), write(BROKEN, tmp_path / "bad")
    assert run(["probe", str(good)]) == 0
    told = capsys.readouterr().out
    assert "supported" in told.splitlines()[-1] and "not supported" not in told
    assert "sglang/srt/models/llama.py" in told and "recorded only" in told and "for graphs" in told
    assert run(["probe", str(bad)]) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[-1].endswith("not supported, for model-weights")
    assert "(self, other, weights)" in told and "expected: LlamaForCausalLM.load_weights(self, weights)" in told


def test_the_command_tells_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--json", str(write(BROKEN, tmp_path))]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["version"], told["supported"], told["graphs_supported"]) == (1, "0.5.23", False, False)
    unknown = [seam for seam in told["seams"] if seam["word"] == UNKNOWN]
    assert [seam["name"] for seam in unknown] == ["model-weights"]
    assert {"name", "area", "word", "need", "needed", "served", "use", "where", "detail", "expected"} == set(unknown[0])
    assert unknown[0]["needed"] is True and unknown[0]["need"] == "always"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["probe", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1
    return captured.err


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such path" in refused(capsys, str(tmp_path / "nowhere"))
    assert "no sglang/srt/server_args.py" in refused(capsys, str(tmp_path))
    text = tmp_path / "text.whl"
    text.write_text("no archive")
    assert "text.whl" in refused(capsys, str(text))
    assert "no sglang/srt/server_args.py" in refused(capsys, str(wheel(tmp_path, tmp_path.parent / "other.whl")))


def test_a_broken_wheel_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = wheel(write(NEW, tmp_path / "site"), tmp_path / "sglang.whl")
    content = bytearray(path.read_bytes())
    with ZipFile(path) as archive:
        start = archive.getinfo("sglang/srt/models/llama.py").header_offset + 64
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    assert "llama.py" in refused(capsys, str(path))


def test_an_unreadable_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(NEW, tmp_path)
    path = root / "sglang" / "srt" / "environ.py"
    path.unlink()
    path.mkdir()
    assert "environ.py" in refused(capsys, str(root))


ALONE = """
import sys
from vskipper.cli.main import run
code = run(["probe", *sys.argv[1:]])
loaded = {name.split(".")[0] for name in sys.modules} & {"torch", "sglang", "triton", "transformers"}
sys.exit(f"imported {loaded}" if loaded else code)
"""


def alone(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own that finds modules in `path` first and has no SGLang but there."""
    project = str(Path(__file__).parents[3])
    environment = {"PYTHONPATH": f"{path}:{project}", "PATH": "", "COLUMNS": "80"}
    command = [sys.executable, "-c", ALONE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=path)


def test_the_installed_one_is_found_and_not_imported(tmp_path: Path) -> None:
    files = NEW | {"__init__.py": "raise RuntimeError('imported')"}
    done = alone(write(files, tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"SGLang 0.5.23 at {tmp_path}: supported" in done.stdout
    assert all("…" not in line for line in done.stdout.splitlines())


def test_without_one_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vskipper.sglang.probe.tree.PACKAGE", "sglang_that_is_nowhere")
    with pytest.raises(InputError, match="not installed"):
        installed_root()


def test_a_link_to_a_tree_is_followed(tmp_path: Path) -> None:
    root = write(NEW, tmp_path / "real")
    (tmp_path / "link").symlink_to(root / "sglang")
    assert probe_tree(tmp_path / "link").root == str(root)
    shutil.rmtree(root)
    with pytest.raises(InputError, match="no such path"):
        probe_tree(tmp_path / "link")
