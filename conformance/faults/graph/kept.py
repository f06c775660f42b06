"""Faults of what is kept of a capture: filed over another's, or given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.graph.make import graph_fault
from vskipper.sglang.graphs.variant import Variant


def _buffer_freed(original: Any) -> Any:
    others: list[Tensor] = []

    def broken(graphs: Any, *arguments: Any, **keywords: Any) -> Any:
        answer = original(graphs, *arguments, **keywords)
        if graphs._buffers is not None:
            freed = graphs._buffers.force_run
            graphs._buffers = replace(graphs._buffers, force_run=torch.zeros_like(freed))
            size, address = freed.untyped_storage().nbytes(), freed.data_ptr()
            # a twin of an older graph would read nothing at all: only replays may be held against it
            freed.untyped_storage().resize_(0)
            others.extend(_taken(size, address, freed.device))
        return answer

    return broken


def _taken(size: int, address: int, device: torch.device) -> list[Tensor]:
    """Memory of others, up to the first at the address: the allocator hands it out again."""
    taken: list[Tensor] = []
    while not taken or taken[-1].data_ptr() != address:
        if len(taken) == 4096:
            raise RuntimeError("what was freed was handed out to nobody")
        taken.append(torch.ones(size, dtype=torch.uint8, device=device))
    return taken


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
