"""Tests that need a CUDA GPU: `pytest gpu_tests -m gpu`. Without one all of them are skipped, for one reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from vskipper.kernels.gpu import has_gpu

_HERE = Path(__file__).parent
_NONE = "no CUDA GPU"


def pytest_report_header() -> str:
    gpu = torch.cuda.get_device_name() if has_gpu() else f"{_NONE}, its tests are skipped"
    return f"gpu: {gpu}; torch {torch.__version__}, triton {triton.__version__}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # the hook sees the items of every folder, and must mark before -m selects
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.gpu)
            if not has_gpu():
                item.add_marker(pytest.mark.skip(reason=_NONE))


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the engine showed, by place and level; or why nothing was run."""
    if not has_gpu():
        terminalreporter.write_line(f"{_NONE} that torch can use: every test of gpu_tests is skipped")
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == "engine":
                    outcomes[str(value)][outcome] += 1
    if outcomes:
        terminalreporter.section("SGLang on this GPU")
    for name, counted in sorted(outcomes.items()):
        told = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        terminalreporter.write_line(f"{name}: {told}")
