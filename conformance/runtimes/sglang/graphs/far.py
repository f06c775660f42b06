"""An engine with a pool of many gigabytes, one at a time among the processes of this machine, and gone when closed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import torch

from conformance.runtimes.sglang.graphs.build import GraphBuilt, build_graphs
from conformance.runtimes.sglang.memory import changing, only_large
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.seat import Seat
from properties.runtime import Model
from vskipper.policy import SkipPolicy

# of a GPU's whole memory, for the pool; weights, graphs and other processes have the rest
POOL_SHARE: Final = 0.6
MEMORY: Final = 0.9


def pool_bytes() -> int:
    """What the K and V of all layers may take together on this GPU."""
    return int(torch.cuda.get_device_properties(0).total_memory * POOL_SHARE)


def build_far(
    model: Model, seat: Seat, policy: SkipPolicy, slots: int, *, forced: bool, until: ExitStack
) -> GraphBuilt:
    """An engine whose pool has `slots` slots or more; `until` gives its memory back. Waits while another process has
    one. Raises RuntimeError where the engine made a smaller pool."""
    only_large(seat.device, until)
    page = seat.page_size
    roomy = replace(seat, tokens=-(-slots // page) * page, memory=MEMORY)
    with changing(seat.device):
        # what engines of this process have given back
        torch.cuda.empty_cache()
        built = build_graphs(model, roomy, policy, forced=forced)
    until.callback(_free, built)
    found = raw(built.engine.pool)[0][0].shape[0]
    if found < slots:
        raise RuntimeError(f"slots of the pool: got {found}, expected {slots} or more")
    return built


def _free(built: GraphBuilt) -> None:
    """At once, whoever still refers to the engine: nobody will run it."""
    torch.cuda.synchronize()
    with changing(built.engine.runner.device):
        for tensor in (part for pair in raw(built.engine.pool) for part in pair):
            tensor.untyped_storage().resize_(0)
        torch.cuda.empty_cache()
