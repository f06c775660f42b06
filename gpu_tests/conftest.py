"""Tests that need a CUDA GPU: `pytest gpu_tests -m gpu`. Without one all of them are skipped, for one reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu

_HERE = Path(__file__).parent


@cache
def _lacks() -> str | None:
    """Why nothing here can run; None where it can."""
    try:
        check_gpu("pytest -m gpu")
    except InputError as error:
        return str(error)
    return None


def pytest_report_header() -> str:
    gpu = torch.cuda.get_device_name() if _lacks() is None else "none that its tests can use"
    return f"gpu: {gpu}; torch {torch.__version__}, triton {triton.__version__}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # the hook sees the items of every folder, and must mark before -m selects
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.gpu)
            if (lacks := _lacks()) is not None:
                item.add_marker(pytest.mark.skip(reason=lacks))


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What the engine showed, by place and level; or why nothing was run."""
    if (lacks := _lacks()) is not None:
        terminalreporter.write_line(f"every test of gpu_tests is skipped: {lacks}")
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
