"""The engine's attention backend and KV pool as the executor sees them, for one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from vskipper.action import ATTENTION_BIT
from vskipper.sglang.layer import EngineLayer
from vskipper.sglang.masked_attention import attend_masked, every_row
from vskipper.sglang.seams.kv_write import write_kv


class EngineAttention:
    """Implements Attention over the engine's forward batch. The backend attends for every row, since its metadata
    describe the whole batch; what a row that skips attention gets is dropped, never multiplied away."""

    def __init__(self, layers: Sequence[EngineLayer], forward_batch: Any) -> None:
        self._layers = layers
        self._batch = forward_batch
        self._written: tuple[int, Tensor, Tensor] | None = None

    def write_kv(self, layer: int, k: Tensor, v: Tensor) -> None:
        write_kv(self._layers[layer].attention, self._batch, k, v)
        self._written = (layer, k, v)

    def attend_all(self, layer: int, q: Tensor) -> Tensor:
        k, v = self._of(layer)
        return every_row(self._layers[layer].attention, q, k, v, self._batch)

    def attend_rows(self, layer: int, q: Tensor, rows: Tensor) -> Tensor:
        return self.attend_all(layer, q)[rows]

    def attend_masked(self, layer: int, q: Tensor, actions: Tensor, valid: Tensor) -> Tensor:
        k, v = self._of(layer)
        runs = (actions & ATTENTION_BIT).bool() & valid
        return attend_masked(self._layers[layer].attention, q, k, v, actions, runs, self._batch)

    def _of(self, layer: int) -> tuple[Tensor, Tensor]:
        """The K and V that were written last."""
        if self._written is None or self._written[0] != layer:
            raise RuntimeError(f"attention of layer {layer} before its K and V are written")
        return self._written[1], self._written[2]
