"""The engine's decode graph runner with a second variant of every graph: captured after the first, replayed for
batches with routed rows (clauses GRAPH-1..4, MODE-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vskipper.sglang.graphs.buffers import CapturedPass, GraphBuffers
from vskipper.sglang.graphs.metadata import VariantMetadata
from vskipper.sglang.graphs.variant import Variant, using
from vskipper.sglang.passes import current_pass, published


class RoutedGraphs:
    """One engine's routed decode graphs. sizes: batch sizes that have one, ascending once captured."""

    def __init__(self, routed_layers: int) -> None:
        self._routed_layers = routed_layers
        self._buffers: GraphBuffers | None = None
        self._metadata = VariantMetadata()
        self.sizes: set[int] = set()

    def capture(self, original: Callable[..., Any], runner: Any, size: int, *arguments: Any, **keywords: Any) -> None:
        """Around the capture of one size: the engine's graph first, then the routed one."""
        self._metadata.use(runner.attn_backend, Variant.DENSE)
        original(runner, size, *arguments, **keywords)
        source = CapturedPass(buffers=self.allocated(runner))
        with self._metadata.using(runner.attn_backend, Variant.ROUTED), using(Variant.ROUTED), published(source):
            original(runner, size, *arguments, **keywords)
        self.sizes.add(size)

    def execute(
        self, original: Callable[..., Any], runner: Any, forward_batch: Any, *arguments: Any, **keywords: Any
    ) -> Any:
        """Around a replay: the variant that the batch's requests ask for."""
        source = current_pass()
        plan = None if source is None else source.plan(forward_batch.input_ids, forward_batch.positions, forward_batch)
        if source is None or plan is None:
            return original(runner, forward_batch, *arguments, **keywords)
        if self._padded(runner, forward_batch) not in self.sizes:
            source.uncovered()
            return original(runner, forward_batch, *arguments, **keywords)
        buffers = self.allocated(runner)
        buffers.load(plan)
        with self._metadata.using(runner.attn_backend, Variant.ROUTED), using(Variant.ROUTED):
            output = original(runner, forward_batch, *arguments, **keywords)
        if plan.replayed is not None:
            plan.replayed(buffers.evidence(plan.rows.rows))
        return output

    def allocated(self, runner: Any) -> GraphBuffers:
        """The static buffers, made for the runner's largest batch when they are first asked for."""
        if self._buffers is None:
            self._buffers = GraphBuffers.allocate(runner.max_bs, self._routed_layers, runner.device)
        return self._buffers

    def _padded(self, runner: Any, forward_batch: Any) -> int:
        """The captured size that the engine pads this batch to."""
        return min((size for size in runner.capture_bs if size >= forward_batch.batch_size), default=-1)
