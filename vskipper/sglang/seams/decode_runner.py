"""The engine's decode graph runner: the key of a graph, the capture of one size, and a replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.graphs.variant import Variant, current_variant
from vskipper.sglang.seams.wrap import rewrap


def install(graphs: RoutedGraphs) -> None:
    """Give every captured size a second graph under a key of its own."""
    from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner

    rewrap(DecodeCudaGraphRunner, "_make_graph_key", _variant_key)
    rewrap(DecodeCudaGraphRunner, "capture_one_shape", graphs.capture)
    rewrap(DecodeCudaGraphRunner, "execute", graphs.execute)


def _variant_key(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    key = original(*arguments, **keywords)
    if current_variant() == Variant.DENSE:
        return key
    return replace(key, variant_label=f"{key.variant_label or ''}vskipper")
