"""gpu_tests are collected where no plugin of pytest's is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_without_plugins_every_mark_is_known() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu", "gpu_tests"]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
