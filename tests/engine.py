"""Tests that need an installed SGLang: selected by `-m sglang`, skipped where there is none."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TypeVar

import pytest

Test = TypeVar("Test")
absent = pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed")


def needs_sglang(test: Test) -> Test:
    """A test function, perhaps already marked."""
    marked: Test = pytest.mark.sglang(absent(test))
    return marked
