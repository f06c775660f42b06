"""Servers for the tests of one module: at most those that it needs, and none once it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import pytest

from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.process import Server, running


@pytest.fixture(scope="module", autouse=True)
def _needs_sglang() -> None:
    if find_spec("sglang") is None:
        pytest.skip("SGLang is not installed")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Launch], Server]]:
    """Start a server that runs until the module's tests are done."""
    with ExitStack() as stack:

        def started(launch: Launch) -> Server:
            return stack.enter_context(running(launch, tmp_path_factory.mktemp("server") / "log"))

        yield started
