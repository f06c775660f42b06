"""Faults of what is kept of a capture: filed over another's, or given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from conformance.faults.graph.make import graph_fault
from vskipper.sglang.graphs.variant import Variant

# bytes of the largest tensor that torch puts among small ones
SMALL: Final = 1 << 20
# a block larger than that is given in parts
ROUNDS: Final = 4


def _buffer_freed(original: Any) -> Any:
    others: list[Tensor] = []

    def broken(graphs: Any, *arguments: Any, **keywords: Any) -> Any:
        answer = original(graphs, *arguments, **keywords)
        if graphs._buffers is not None:
            freed = graphs._buffers.force_run
            graphs._buffers = replace(graphs._buffers, force_run=torch.zeros_like(freed))
            address = freed.data_ptr()
            # a twin of an older graph would read nothing at all: only replays may be held against it
            freed.untyped_storage().resize_(0)
            others.extend(taken(address, freed.device))
        return answer

    return broken


def taken(address: int, device: torch.device) -> list[Tensor]:
    """Memory of others, the last of it over the address. Torch hands out the smallest free block that is large enough,
    of several the first in memory. Raises RuntimeError where the address is not free or nobody is given it."""
    others: list[Tensor] = []
    for _ in range(ROUNDS):
        asked, rivals = _free_block(address)
        for _ in range(rivals):
            others.append(torch.ones(asked, dtype=torch.uint8, device=device))
            if 0 <= address - others[-1].data_ptr() < asked:
                return others
    raise RuntimeError(f"what was freed at {address:#x} was handed out to nobody in {len(others)} allocations")


def _free_block(address: int) -> tuple[int, int]:
    """Bytes to ask for, so that the free block which holds the address is given; and the number of free blocks, itself
    among them, that may be given first."""
    free: list[int] = []
    holds: int | None = None
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        first = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                free.append(block["size"])
                holds = block["size"] if 0 <= address - first < block["size"] else holds
            first += block["size"]
    if holds is None:
        raise RuntimeError(f"what was freed at {address:#x} is in no free block")
    asked = min(holds, SMALL)
    return asked, sum(asked <= size <= holds for size in free)


def _one_key(original: Any) -> Any:
    return lambda: Variant.DENSE


def _one_file(original: Any) -> Any:
    return lambda files, backend, variant: None


FAULTS = (
    graph_fault(
        id="graph-one-key",
        title="the routed graph of a size is filed where the dense one was",
        source="second capture overwrites the first",
        seam="vskipper.sglang.seams.decode_runner:current_variant",
        patch=_one_key,
        killer="graph.dense",
        reason="differs_from_stock",
        # a dense pass would run on a plan of other lengths, which FlashInfer's kernel need not survive
        quiet=("graph.padding",),
    ),
    graph_fault(
        id="graph-plans-shared",
        title="the plan of a size's routed graph is filed where the dense one's was",
        source="second capture overwrites the first plan",
        seam="vskipper.sglang.graphs.metadata:VariantMetadata.use",
        patch=_one_file,
        # a twin of the dense graph runs on the stale plan as well
        killer="graph.dense",
        reason="differs_from_stock",
        backends=("flashinfer",),
    ),
    graph_fault(
        id="graph-buffer-freed",
        title="what a captured graph reads is given back, and to others, once it is captured",
        source="predicate tensors freed while graphs wrote them",
        seam="vskipper.sglang.graphs.runner:RoutedGraphs.capture",
        patch=_buffer_freed,
        killer="graph.outputs",
        reason="routes_differ",
    ),
)
