"""The scheduler around a batch: before the model runs it, and before its results are handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vskipper.sglang.batches import BatchPass
from vskipper.sglang.passes import published
from vskipper.sglang.seams.wrap import rewrap

RAN = "vskipper"


def install(open_batch: Callable[[Any], BatchPass], close_batch: Callable[[Any, BatchPass], None]) -> None:
    """Publish open_batch(batch) while the batch runs; it travels with the result, since a later batch may have run
    before this one's results are handled, to close_batch(batch, ...)."""
    from sglang.srt.managers.scheduler import Scheduler

    def run(original: Callable[..., Any], self: Any, batch: Any, *arguments: Any, **keywords: Any) -> Any:
        ran = open_batch(batch)
        with published(ran):
            result = original(self, batch, *arguments, **keywords)
        setattr(result, RAN, ran)
        return result

    def process(
        original: Callable[..., Any], self: Any, batch: Any, result: Any, *arguments: Any, **keywords: Any
    ) -> Any:
        # the pass ran on a stream of its own, and what it left is read on this one
        if getattr(result, "copy_done", None) is not None:
            result.copy_done.synchronize()
        close_batch(batch, getattr(result, RAN))
        return original(self, batch, result, *arguments, **keywords)

    rewrap(Scheduler, "run_batch", run)
    rewrap(Scheduler, "process_batch_result", process)
