"""The paged pool of the torch runtime, and attention over it: packed by torch operators, masked by the kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.runtimes.torch_runtime.rows import Rows
from reference.config import ModelConfig
from reference.plan import PoolLayout
from vskipper.kernels.decode_attention import paged_decode


class Pool:
    """K and V of every layer, [slots, kv heads, head dim], zero at first as in serving engines."""

    def __init__(self, config: ModelConfig, layout: PoolLayout, dtype: torch.dtype) -> None:
        kv_dtype = getattr(torch, layout.kv_dtype) if layout.kv_dtype else dtype
        shape = (layout.slots, config.num_key_value_heads, config.head_dim)
        self.layout = layout
        self.layers = tuple(
            (torch.zeros(shape, dtype=kv_dtype), torch.zeros(shape, dtype=kv_dtype))
            for _ in range(config.num_hidden_layers)
        )


class PagedAttention:
    """Implements Attention for one pass: `rows` holds its row-to-memory maps."""

    def __init__(self, config: ModelConfig, pool: Pool, rows: Rows) -> None:
        self.config = config
        self.pool = pool
        self.rows = rows
        self._scale = config.head_dim**-0.5

    def write_kv(self, layer: int, k: Tensor, v: Tensor) -> None:
        k_pool, v_pool = self.pool.layers[layer]
        layout = self.pool.layout
        store(k_pool, self.rows.out_cache_loc, k, layout.k_scale)
        store(v_pool, self.rows.out_cache_loc, v, layout.v_scale)

    def attend_all(self, layer: int, q: Tensor) -> Tensor:
        valid = self.rows.batch.valid
        out = torch.zeros(q.shape[0], q.shape[1] * q.shape[2], dtype=q.dtype)
        out[valid] = self.attend_rows(layer, q, valid.nonzero().flatten())
        return out

    def attend_rows(self, layer: int, q: Tensor, rows: Tensor) -> Tensor:
        table, lengths, q = self.rows.slot_table[rows], self.rows.lengths[rows], q[rows]
        k, v = self._context(layer, table, q.dtype)
        visible = torch.arange(table.shape[1])[None] < lengths[:, None]
        groups = q.view(q.shape[0], self.config.num_key_value_heads, -1, q.shape[2])
        scores = torch.einsum("nhgd,nchd->nhgc", groups, k) * self._scale
        scores = scores.masked_fill(~visible[:, None, None], float("-inf"))
        wide = torch.promote_types(q.dtype, torch.float32)
        weights = scores.softmax(-1, dtype=wide).to(q.dtype)
        return torch.einsum("nhgc,nchd->nhgd", weights, hide(v, visible)).reshape(q.shape[0], -1)

    def attend_masked(self, layer: int, q: Tensor, actions: Tensor, valid: Tensor) -> Tensor:
        k_pool, v_pool = self.pool.layers[layer]
        out = torch.empty_like(q)
        layout = self.pool.layout
        paged_decode(
            q, k_pool, v_pool, self.rows.kv_indptr, self.rows.kv_indices, actions, valid, out,
            softmax_scale=self._scale, k_scale=layout.k_scale, v_scale=layout.v_scale,
        )  # fmt: skip
        return out.view(q.shape[0], -1)

    def _context(self, layer: int, table: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        k_pool, v_pool = self.pool.layers[layer]
        layout = self.pool.layout
        return load(k_pool, table, layout.k_scale, dtype), load(v_pool, table, layout.v_scale, dtype)


def hide(values: Tensor, visible: Tensor) -> Tensor:
    """values [n, context, heads, head dim] with zeros where visible bool [n, context] is False."""
    # slots outside the context may hold anything, NaN too, and 0 * NaN is not 0
    return torch.where(visible[:, :, None, None], values, torch.zeros_like(values))


def store(pool: Tensor, slots: Tensor, values: Tensor, scale: float) -> None:
    """pool[slots] = values / scale in the pool's dtype; the same rule for every row (clause KV-4)."""
    stored = (values if scale == 1.0 else values / scale).to(pool.dtype)
    pool.view(torch.uint8)[slots] = stored.contiguous().view(torch.uint8)


def load(pool: Tensor, slots: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """pool[slots] * scale in `dtype`; slots of any shape."""
    values = pool.view(torch.uint8)[slots].view(pool.dtype).to(dtype)
    return values if scale == 1.0 else values * scale
