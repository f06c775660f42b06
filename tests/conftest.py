"""Settings of every test process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vskipper.kernels.gpu import has_gpu
from vskipper.suite import interpret_kernels

# before any test module imports a kernel
interpret_kernels("cuda" if has_gpu() else "cpu")
# many small operators in two processes: threads of each would only fight over the cores
torch.set_num_threads(1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m gpu` asks for none of these, and a machine that tests its GPU need not have what they import."""
    return True if config.option.markexpr == "gpu" else None
