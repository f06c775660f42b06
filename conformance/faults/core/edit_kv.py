"""Faults in what is written: one place to change K, V or slots of chosen rows on their way into the pool."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from conformance.runtimes.torch_runtime.attention import PagedAttention
from vskipper.execution.packed import span_rows
from vskipper.execution.routed_layer import RoutedLayer
from vskipper.execution.routed_pass import RoutedPass


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one routed layer is about to write. slots: int64 [rows]; k, v: [rows, kv heads, head dim]; project: row
    numbers of PROJECT_ONLY rows, int64 [n]; x: [rows, hidden], positions: int64 [rows]."""

    layer: RoutedLayer
    run: RoutedPass
    slots: Tensor
    k: Tensor
    v: Tensor
    x: Tensor
    project: Tensor


Edit = Callable[[Written], Written]


def edit_kv(edit: Edit) -> Callable[[Any], Any]:
    """A patch of RoutedLayer._write_kv that passes everything written through `edit`."""

    def patch(original: Callable[[RoutedLayer, Tensor, RoutedPass], Tensor]) -> Any:
        def broken(self: RoutedLayer, x: Tensor, run: RoutedPass) -> Tensor:
            writer = _Writer(edit, self, x, run)
            return original(self, x, replace(run, attention=writer))

        return broken

    return patch


class _Writer:
    """Stands in for the pass's attention while K and V are written."""

    def __init__(self, edit: Edit, layer: RoutedLayer, x: Tensor, run: RoutedPass) -> None:
        self._edit, self._layer, self._x, self._run = edit, layer, x, run
        self.attend_all = run.attention.attend_all
        self.attend_rows = run.attention.attend_rows
        self.attend_masked = run.attention.attend_masked

    def write_kv(self, layer: int, k: Tensor, v: Tensor) -> None:
        attention: Any = self._run.attention
        paged = isinstance(attention, PagedAttention)
        slots = attention.rows.out_cache_loc if paged else attention._batch.out_cache_loc
        project = span_rows(self._run.plans[self._layer.index].projector)
        edited = self._edit(
            Written(layer=self._layer, run=self._run, slots=slots, k=k, v=v, x=self._x, project=project)
        )
        write = _write_paged if paged else _write_in_engine
        write(attention, layer, edited)
        if not paged:
            # its backends are handed K and V once more
            attention._written = layer, k, v


def _write_paged(attention: PagedAttention, layer: int, edited: Written) -> None:
    rows = replace(attention.rows, out_cache_loc=edited.slots)
    PagedAttention(attention.config, attention.pool, rows).write_kv(layer, edited.k, edited.v)


def _write_in_engine(attention: Any, layer: int, edited: Written) -> None:
    batch, writer = copy(attention._batch), copy(attention)
    batch.out_cache_loc = edited.slots
    writer._batch = batch
    writer.write_kv(layer, edited.k, edited.v)


def changed(values: Tensor, rows: Tensor, new: Tensor) -> Tensor:
    """A copy of values with values[rows] = new."""
    out = values.clone()
    out[rows] = new
    return out


def others(rows: Tensor, count: int) -> Tensor:
    """The row numbers below `count` that are not in rows."""
    keep = torch.ones(count, dtype=torch.bool)
    keep[rows] = False
    return keep.nonzero().squeeze(1)
