"""Prefill graphs, whatever a version calls them: a routed prefill is packed on the host, and runs eagerly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

from vskipper.sglang.passes import current_pass
from vskipper.sglang.seams.wrap import rewrap

PACKAGE: Final = "sglang.srt.model_executor"
RUNNERS: Final = (
    ("runner.prefill_cuda_graph_runner", "PrefillCudaGraphRunner", "can_run_graph"),
    ("piecewise_cuda_graph_runner", "PiecewiseCudaGraphRunner", "can_run"),
    ("breakable_cuda_graph_runner", "BreakableCudaGraphRunner", "can_run"),
)


def install() -> None:
    """Have each runner that this version has decline a batch with routed rows; dense prefill keeps its graph."""
    for runner, method in runners():
        rewrap(runner, method, _declined)


def runners() -> Iterator[tuple[Any, str]]:
    """Each class that this version has, and its method that says whether a batch is replayed."""
    for module, name, method in RUNNERS:
        try:
            found = import_module(f"{PACKAGE}.{module}")
        except ModuleNotFoundError:
            continue
        yield getattr(found, name), method


def _declined(original: Callable[..., bool], runner: Any, forward_batch: Any, *arguments: Any) -> bool:
    source = current_pass()
    routed = source is not None and source.is_routed(forward_batch)
    return not routed and original(runner, forward_batch, *arguments)
