"""A paged KV pool: for each layer K and V tensors of slots, written and read by slot number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reference.config import ModelConfig
from reference.plan import PoolLayout


class PagedPool:
    """K and V of each layer, [slots, kv_heads, head_dim], stored as value / scale in layout.kv_dtype.

    dtype: of the hidden states; what read() returns, and what is stored where layout.kv_dtype is None.
    fill: what every slot holds at first. NaN by default, so that a slot read before it is written shows.
    Raises ValueError for a layout that cannot be.
    """

    def __init__(
        self, config: ModelConfig, layout: PoolLayout, dtype: torch.dtype, *, fill: float = float("nan")
    ) -> None:
        self.layout = layout
        self.dtype = dtype
        self._require(layout.page_size > 0 and layout.page_size & (layout.page_size - 1) == 0, "page_size")
        self._require(layout.pages > 0, "pages")
        self._require(layout.k_scale > 0, "k_scale")
        self._require(layout.v_scale > 0, "v_scale")
        self.kv_dtype = dtype if layout.kv_dtype is None else getattr(torch, layout.kv_dtype, None)
        self._require(isinstance(self.kv_dtype, torch.dtype) and self.kv_dtype.is_floating_point, "kv_dtype")
        shape = (layout.slots, config.num_key_value_heads, config.head_dim)
        self._kv = tuple(
            (torch.full(shape, fill, dtype=self.kv_dtype), torch.full(shape, fill, dtype=self.kv_dtype))
            for _ in range(config.num_hidden_layers)
        )

    def _require(self, holds: bool, name: str) -> None:
        expected = {
            "page_size": "a power of two",
            "pages": "a positive integer",
            "kv_dtype": "the name of a floating-point torch dtype",
        }.get(name, "a positive number")
        if not holds:
            raise ValueError(f"pool layout, {name}: got {getattr(self.layout, name)!r}, expected {expected}")

    @property
    def kv(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """The stored tensors themselves, K and V of each layer."""
        return self._kv

    def write(self, layer: int, slot: int, k: Tensor, v: Tensor) -> None:
        """Store k and v [kv_heads, head_dim] of one row."""
        if not 0 <= slot < self.layout.slots:
            raise ValueError(f"pool, layer {layer}, slot: got {slot}, expected 0 to {self.layout.slots - 1}")
        keys, values = self._kv[layer]
        keys[slot] = (k / self.layout.k_scale).to(keys.dtype)
        values[slot] = (v / self.layout.v_scale).to(values.dtype)

    def read(self, layer: int, slots: Sequence[int]) -> tuple[Tensor, Tensor]:
        """K and V of `slots` in that order, each [len(slots), kv_heads, head_dim], times their scales, in `dtype`."""
        keys, values = self._kv[layer]
        index = torch.tensor(slots, dtype=torch.int64)
        k = keys[index].to(self.dtype) * self.layout.k_scale
        return k, values[index].to(self.dtype) * self.layout.v_scale
