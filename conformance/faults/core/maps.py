"""Faults of row-to-memory maps and of padding: clauses MAP-2, MAP-3 and GRAPH-3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from conformance.faults.fault import WRITES_AND_MAPS, Fault
from conformance.runtimes.torch_runtime.rows import Rows


def _stale_table(original: Any) -> Any:
    """A session keeps its row-to-memory maps while the number of rows stays the same."""
    kept: WeakKeyDictionary[Any, Rows] = WeakKeyDictionary()

    def broken(self: Any, policy: Any, rows: Rows) -> Any:
        last = kept.get(self)
        kept[self] = rows
        if last is not None and len(last.lengths) == len(rows.lengths):
            rows = replace(rows, slot_table=last.slot_table, lengths=last.lengths)
        return original(self, policy, rows)

    return broken


def _unpacked_map(original: Any) -> Any:
    """Packed queries meet the map of the unpacked rows: its first n lines."""

    def broken(self: Any, layer: int, q: Tensor, rows: Tensor) -> Tensor:
        packed = torch.cat([q[rows], q[rows.numel() :]])
        out: Tensor = original(self, layer, packed, torch.arange(rows.numel()))
        return out

    return broken


def _page_for_slot(original: Any) -> Any:
    """A map of slots is read as one of pages: right while a page is one slot."""

    def broken(chunk: Any, page_size: int) -> list[tuple[int, ...]]:
        contexts: list[tuple[int, ...]] = original(chunk, page_size)
        return [tuple(slot // page_size if i else slot for i, slot in enumerate(slots)) for slots in contexts]

    return broken


def _edge_of_page_lost(original: Any) -> Any:
    """A context that ends at a page's edge loses its last position."""

    def broken(chunk: Any, page_size: int) -> list[tuple[int, ...]]:
        contexts: list[tuple[int, ...]] = original(chunk, page_size)
        return [
            slots[:-1] if page_size > 1 and len(slots) > 1 and len(slots) % page_size == 0 else slots
            for slots in contexts
        ]

    return broken


def _slot_in_eight_bits(original: Any) -> Any:
    """Slot numbers are kept too narrow to reach the end of the pool."""

    def broken(chunk: Any, page_size: int) -> list[tuple[int, ...]]:
        contexts: list[tuple[int, ...]] = original(chunk, page_size)
        return [tuple(slot % 256 for slot in slots) for slots in contexts]

    return broken


def _future_visible(original: Any) -> Any:
    """Every row of a chunk sees the whole chunk."""

    def broken(chunk: Any, page_size: int) -> list[tuple[int, ...]]:
        contexts: list[tuple[int, ...]] = original(chunk, page_size)
        return [contexts[-1]] * len(contexts)

    return broken


def _masked_by_product(original: Any) -> Any:
    """Slots outside the context are multiplied away: 0 * NaN stays NaN."""

    def broken(values: Tensor, visible: Tensor) -> Tensor:
        return values * visible[:, :, None, None]

    return broken


CONTEXTS = "conformance.runtimes.torch_runtime.rows:_contexts"
# K and V of the layers above may be anything, where what is read was never written
WRITES = ("kv.footprint", "map.partition")
FAULTS = (
    Fault(
        id="map-stale",
        title="row-to-memory maps are kept while the number of rows stays the same",
        source="rtp-llm#1084",
        seam="conformance.runtimes.torch_runtime.session:TorchSession._open_pass",
        patch=_stale_table,
        killer="map.fresh",
        reason="stale_map",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="map-not-packed",
        title="packed queries meet the maps of unpacked rows",
        source="tt-xla#5778",
        seam="conformance.runtimes.torch_runtime.attention:PagedAttention.attend_rows",
        patch=_unpacked_map,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="map-page-for-slot",
        title="a slot's page number is used as its slot",
        source="sglang#31218",
        seam=CONTEXTS,
        patch=_page_for_slot,
        killer="map.layout",
        reason="layout_changes_result",
        quiet=WRITES,
    ),
    Fault(
        id="map-edge-of-page",
        title="a context that ends at a page's edge loses its last position",
        source="vllm#7371",
        seam=CONTEXTS,
        patch=_edge_of_page_lost,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="map-narrow-slots",
        title="slot numbers are kept in too few bits",
        source="vllm#47671",
        seam=CONTEXTS,
        patch=_slot_in_eight_bits,
        killer="map.layout",
        reason="layout_changes_result",
        quiet=WRITES,
    ),
    Fault(
        id="map-future-visible",
        title="a row sees the rows behind it in its chunk",
        source="sglang#24275",
        seam=CONTEXTS,
        patch=_future_visible,
        killer="sem.outputs",
        reason="wrong_hidden",
        quiet=WRITES_AND_MAPS,
    ),
    Fault(
        id="mask-by-product",
        title="slots outside a context are multiplied by zero, and NaN stays NaN",
        source="sglang#32477",
        seam="conformance.runtimes.torch_runtime.attention:hide",
        patch=_masked_by_product,
        killer="sem.outputs",
        reason="not_finite",
        quiet=("kv.footprint", "map.partition", "policy.declared"),
    ),
)
