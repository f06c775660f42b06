"""What a graph was captured from and where it leaves what it did: kept alive, and so readable after every replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from conformance.runtimes.sglang.streams import listen
from vskipper.execution.routed_pass import RoutedPass
from vskipper.sglang.graphs.buffers import CapturedPass
from vskipper.sglang.graphs.variant import current_variant, using
from vskipper.sglang.passes import PassPlan, current_pass, published


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One execution of the captured code. output: the engine's. streams: entering each layer and leaving the last.
    run: None in variant dense."""

    output: Any
    streams: tuple[Tensor, ...]
    run: RoutedPass | None


class Padding:
    """What rows enter the first layer with in place of their embedding: read by every captured graph."""

    def __init__(self, rows: int, hidden: int, like: Tensor) -> None:
        self.mask = torch.zeros(rows, 1, dtype=torch.bool, device=like.device)
        self.values = torch.zeros(rows, hidden, dtype=like.dtype, device=like.device)

    def replace(self, embedded: Tensor) -> Tensor:
        rows = embedded.shape[0]
        if rows > self.mask.shape[0]:
            # no decode pass of a captured size
            return embedded
        return torch.where(self.mask[:rows], self.values[:rows], embedded)


class Recorder:
    """Stands around the engine's graph backend. code_runs: how often the model's code ran to capture."""

    def __init__(self, padding: Padding) -> None:
        self.padding = padding
        self.code_runs = 0
        self.twin = False
        self.last: Record | None = None
        self._records: dict[Any, Record] = {}
        self._twins: dict[Any, Callable[[], Record]] = {}
        self._streams: list[Tensor] = []
        self._runs: list[RoutedPass] = []

    def capture(self, key: Any, forward: Callable[[], Any], original: Callable[[Callable[[], Any]], Any]) -> Any:
        """Around the capture of one graph, which `original` does of what it is handed."""
        variant, source = current_variant(), current_pass()
        attention = attention_backend()
        planned = attention.forward_metadata

        def noted() -> Any:
            self.code_runs += 1
            self._records[key] = self._executed(forward)
            return self._records[key].output

        def twin() -> Record:
            # what a replay brings up to date is what this graph was captured with, not what is current
            with mock.patch.object(attention, "forward_metadata", planned), using(variant), published(source):
                return self._executed(forward)

        self._twins[key] = twin
        return original(noted)

    def replay(self, key: Any, original: Callable[[], Any]) -> Any:
        """Around a replay, or in its place."""
        if self.twin:
            self.last = self._twins[key]()
            return self.last.output
        self.last = self._records[key]
        return original()

    def outputs(self, key: Any) -> Any:
        """The engine's, as that graph leaves them."""
        return self._records[key].output

    def plan(self, original: Callable[..., PassPlan], source: CapturedPass, *arguments: Any) -> PassPlan:
        """Around the plan of a captured pass: its evidence is kept whole."""
        return replace(original(source, *arguments), done=self._runs.append, keep_weights=True)

    def listen(self, decoder: Any) -> None:
        """From now on note the decoder's streams, and replace its padding rows."""

        def enter(module: Any, given: Any, embedded: Tensor) -> Tensor:
            return self.padding.replace(embedded)

        decoder.embed_tokens.register_forward_hook(enter)
        listen(decoder, lambda stream: self._streams.append(stream))

    def _executed(self, forward: Callable[[], Any]) -> Record:
        self._streams, self._runs = [], []
        output = forward()
        run = self._runs[-1] if self._runs else None
        return Record(output=output, streams=tuple(self._streams), run=run)


def attention_backend() -> Any:
    """Of the forward pass that is under way."""
    return import_module("sglang.srt.model_executor.forward_context").get_attn_backend()
