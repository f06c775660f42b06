"""Tests that need a CUDA GPU: `pytest gpu_tests -m gpu`. Without one all of them are skipped, for one reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton

_HERE = Path(__file__).parent
_NONE = "no CUDA GPU"


def pytest_report_header() -> str:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{_NONE}, its tests are skipped"
    return f"gpu: {gpu}; torch {torch.__version__}, triton {triton.__version__}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # the hook sees the items of every folder, and must mark before -m selects
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason=_NONE))


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())
