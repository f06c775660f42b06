"""The engine's decode graph runner with a second variant of every graph: captured after the first, replayed for
batches with routed rows (clauses GRAPH-1..4, MODE-1)."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

from vskipper.errors import InputError
from vskipper.sglang.graphs.buffers import CapturedPass, GraphBuffers
from vskipper.sglang.graphs.metadata import VariantMetadata
from vskipper.sglang.graphs.variant import Variant, using
from vskipper.sglang.passes import current_pass, published

logger = logging.getLogger(__name__)
# bytes that a routed graph leaves free, and how much more it may take than a dense one
ROOM: Final = 256 << 20
FACTOR: Final = 2


def free_memory() -> int:
    """Bytes of the current GPU that no process has."""
    return torch.cuda.mem_get_info()[0]


def own_memory() -> int:
    """Bytes of the current GPU that this process's tensors have, or had and keep."""
    return torch.cuda.memory_reserved()


class RoutedGraphs:
    """One engine's routed decode graphs. sizes: batch sizes that have one. left_out: those for which the GPU's memory
    was short. taken: bytes of free memory that went while they were captured."""

    def __init__(
        self, routed_layers: int, free: Callable[[], int] = free_memory, own: Callable[[], int] = own_memory
    ) -> None:
        self._routed_layers = routed_layers
        self._free, self._own = free, own
        self._reset()

    def _reset(self, runner: Any = None) -> None:
        """Nothing is captured, whatever an earlier runner of the engine's had."""
        # the runner would else outlive the engine's own use of it, with all its graphs
        self._runner = None if runner is None else weakref.ref(runner)
        self._buffers: GraphBuffers | None = None
        self._metadata = VariantMetadata()
        # rows of the first dense graph, and the bytes that it took
        self._first: tuple[int, int] | None = None
        self.sizes: set[int] = set()
        self.left_out: set[int] = set()
        self.taken = 0

    def capture(self, original: Callable[..., Any], runner: Any, size: int, *arguments: Any, **keywords: Any) -> Any:
        """Around the capture of one size: the engine's graph first, then the routed one, where there is room for it.
        Batches of a size without one run dense. Returns what the first capture did."""
        if self._runner is None or self._runner() is not runner:
            self._reset(runner)
        # what other processes take meanwhile is no graph's
        had = self._own()
        with self._metadata.using(runner.attn_backend, Variant.DENSE), using(Variant.DENSE), published(None):
            dense = original(runner, size, *arguments, **keywords)
        left = self._free()
        cost = max(0, self._own() - had)
        if self._first is None:
            self._first = size, cost
            _warn_of_larger(runner, size)
        if left < ROOM + self._need(size, cost, *self._first):
            self._leave_out(size, left)
            return dense
        source = CapturedPass(buffers=self.allocated(runner))
        try:
            with self._metadata.using(runner.attn_backend, Variant.ROUTED), using(Variant.ROUTED), published(source):
                original(runner, size, *arguments, **keywords)
        except InputError as error:
            # the engine's own traceback follows, and says nothing that a person can act on
            logger.error("vskipper: no routed graph for %d rows: %s", size, " ".join(str(error).split()))
            raise
        except RuntimeError as error:
            # what was foreseen is a guess, and a start must not fail for it
            if not _is_out_of_memory(error):
                raise
            self._leave_out(size, left)
            return dense
        self.taken += max(0, left - self._free())
        self.sizes.add(size)
        return dense

    def _need(self, size: int, cost: int, largest: int, first_cost: int) -> int:
        """Bytes that a routed graph of `size` rows may take, beside a dense one that took `cost`. The first one takes
        what all smaller ones then use again, and the less, the fewer rows it has: as the first dense one, of `largest`
        rows, which took `first_cost`."""
        return FACTOR * (cost if self.sizes else first_cost * size // largest)

    def _leave_out(self, size: int, left: int) -> None:
        self.left_out.add(size)
        logger.warning("vskipper: no routed graph for %d rows: %d MiB of GPU memory are left", size, left >> 20)

    @property
    def captured(self) -> bool:
        """Whether the engine has captured any size, be it without a routed graph."""
        return bool(self.sizes or self.left_out)

    def facts(self) -> dict[str, Any]:
        """What /server_info says of them; JSON values."""
        return {"routed": sorted(self.sizes), "left_out": sorted(self.left_out), "bytes": self.taken}

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


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Torch has a class for what its allocator lacks; what a driver or a kernel's launcher lacks is in the message. The
    end of the capture may fail over it, with an error of its own."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, torch.OutOfMemoryError) or "out of memory" in str(each):
            return True
        each = each.__cause__ or each.__context__
    return False


def _warn_of_larger(runner: Any, largest: int) -> None:
    """Engines capture from the largest size on."""
    most = runner.model_runner.req_to_token_pool.size
    if most > largest:
        logger.warning("vskipper: decode batches of more than %d rows run dense, and %d may run", largest, most)
