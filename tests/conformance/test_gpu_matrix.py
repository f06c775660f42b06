"""What `gpu_tests.certify_matrix` covers."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from gpu_tests.certify_matrix import CELLS, SETTINGS, certify
from vskipper.sglang.checks.gpu import BACKENDS


def test_every_policy_on_every_backend_and_both_dtypes_and_models_with_each() -> None:
    assert sorted((cell.policy, cell.backend) for cell in CELLS) == sorted(product(SETTINGS, BACKENDS))
    for names in (SETTINGS, BACKENDS):
        for name in names:
            own = [cell for cell in CELLS if name in (cell.policy, cell.backend)]
            assert {cell.dtype for cell in own} == {"bfloat16", "float16"}
            assert {cell.model for cell in own} == {"small-llama", "small-qwen3"}


def test_a_certificate_that_is_there_stands_and_one_that_fails_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"graph-{CELLS[0].name}"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"granted": true, "seconds": 61.2}')
    assert certify(CELLS[0], tmp_path, "graph", 0)
    # there is no GPU, or no such level
    assert not certify(CELLS[1], tmp_path, "nonsense", 0)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{folder.name}: granted, 61 s"
    assert second == f"nonsense-{CELLS[1].name}: not granted, see nonsense-{CELLS[1].name}.log, 0 s"
    assert "nonsense" in (tmp_path / f"nonsense-{CELLS[1].name}.log").read_text()
