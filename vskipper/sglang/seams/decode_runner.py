"""The engine's decode graph runner: the key or file of a graph, the capture of one size, and a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.graphs.variant import Variant, current_variant
from vskipper.sglang.seams.wrap import rewrap

PACKAGE: Final = "sglang.srt.model_executor"
# attributes in which an older runner files a size's graph and outputs
FILES: Final = ("graphs", "output_buffers")


def install(graphs: RoutedGraphs) -> None:
    """Give every captured size a second graph, under a key or in a file of its own."""
    runner, method = replaying_method()
    if method == "execute":
        rewrap(runner, "_make_graph_key", _variant_key)
        rewrap(runner, "capture_one_shape", graphs.capture)
        rewrap(runner, "execute", graphs.execute)
    else:
        filed = FiledGraphs(graphs)
        rewrap(runner, "capture_one_batch_size", filed.capture)
        rewrap(runner, "replay", filed.replay)


def replaying_method() -> tuple[Any, str]:
    """The class of the engine's decode graph runner and its method that replays: execute() where graphs are kept by
    key, replay() where they are filed by size."""
    try:
        return import_module(f"{PACKAGE}.runner.decode_cuda_graph_runner").DecodeCudaGraphRunner, "execute"
    except ModuleNotFoundError:
        return import_module(f"{PACKAGE}.cuda_graph_runner").CudaGraphRunner, "replay"


def _variant_key(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    key = original(*arguments, **keywords)
    if current_variant() == Variant.DENSE:
        return key
    return replace(key, variant_label=f"{key.variant_label or ''}vskipper")


class FiledGraphs:
    """Around a runner that knows a graph by its size alone, and files what capturing one returns: the graph and its
    outputs. Each variant's are filed beside the runner's own, and stand in their place while one is replayed."""

    def __init__(self, graphs: RoutedGraphs) -> None:
        self._graphs = graphs

    def capture(self, original: Callable[..., Any], runner: Any, size: int, *arguments: Any, **keywords: Any) -> Any:
        """Around the capture of one size; the dense graph's answer, which the runner files as well."""

        def filing(*given: Any, **named: Any) -> Any:
            captured = original(*given, **named)
            file = _files_of(runner).setdefault(current_variant(), {name: {} for name in FILES})
            for name, value in zip(FILES, captured, strict=True):
                file[name][size] = value
            return captured

        return self._graphs.capture(filing, runner, size, *arguments, **keywords)

    def replay(self, original: Callable[..., Any], runner: Any, *arguments: Any, **keywords: Any) -> Any:
        """Around a replay."""

        def from_file(*given: Any, **named: Any) -> Any:
            with self._in_place(runner):
                return original(*given, **named)

        return self._graphs.execute(from_file, runner, *arguments, **keywords)

    @contextmanager
    def _in_place(self, runner: Any) -> Iterator[None]:
        own = {name: getattr(runner, name) for name in FILES}
        vars(runner).update(_files_of(runner)[current_variant()])
        try:
            yield
        finally:
            vars(runner).update(own)


def _files_of(runner: Any) -> dict[Variant, dict[str, dict[int, Any]]]:
    """By variant. They live as long as the runner, whoever stands around it."""
    files: dict[Variant, dict[str, dict[int, Any]]] = vars(runner).setdefault("vskipper_files", {})
    return files
