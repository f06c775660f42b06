"""Decode attention for a subset of rows inside a captured graph, by backend: rows that do not run it read no KV and
come out as exact zeros (clause SEM-2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vskipper.kernels.decode_attention import paged_decode
from vskipper.sglang.seams.kv_write import attention_backend, kv_pool

# module, q, k, v [rows, heads, head dim], actions, runs (valid rows with the attention bit), forward batch
Masked = Callable[[Any, Tensor, Tensor, Tensor, Tensor, Tensor, Any], Tensor]


def attend_masked(
    module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, forward_batch: Any
) -> Tensor:
    """[rows, heads * head dim] of the engine's attention `module`; K and V are written already."""
    if not forward_batch.forward_mode.is_decode():
        return _selected(module, q, k, v, actions, runs, forward_batch)
    masked = _BACKENDS.get(type(attention_backend(forward_batch)).__name__, _selected)
    return masked(module, q, k, v, actions, runs, forward_batch)


def _selected(
    module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, forward_batch: Any
) -> Tensor:
    zero = torch.zeros((), dtype=q.dtype, device=q.device)
    return torch.where(runs[:, None], every_row(module, q, k, v, forward_batch), zero)


def every_row(module: Any, q: Tensor, k: Tensor, v: Tensor, forward_batch: Any) -> Tensor:
    """[rows, heads * head dim] of the engine's own attention, of rows that skip it too."""
    rows = q.shape[0]
    attended: Tensor = module(
        q.reshape(rows, -1), k.reshape(rows, -1), v.reshape(rows, -1), forward_batch, save_kv_cache=False
    )
    return attended.view(rows, -1)


def _masked_lengths(
    module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, forward_batch: Any
) -> Tensor:
    """FlashAttention: a row of length 0 reads nothing and gives zeros. A schedule made for the full lengths is left
    out."""
    backend = attention_backend(forward_batch)
    whole = backend.forward_metadata
    lengths = torch.where(runs, whole.cache_seqlens_int32, torch.zeros_like(whole.cache_seqlens_int32))
    backend.forward_metadata = replace(whole, cache_seqlens_int32=lengths, scheduler_metadata=None)
    try:
        return every_row(module, q, k, v, forward_batch)
    finally:
        backend.forward_metadata = whole


def _own_kernel(indices: Callable[[Any], tuple[Tensor, Tensor]]) -> Masked:
    """vSkipper's paged decode over the slots that the backend has listed for its own kernel."""

    def masked(
        module: Any, q: Tensor, k: Tensor, v: Tensor, actions: Tensor, runs: Tensor, forward_batch: Any
    ) -> Tensor:
        k_pool, v_pool = kv_pool(forward_batch).get_kv_buffer(module.layer_id)
        kv_indptr, kv_indices = indices(attention_backend(forward_batch))
        out = torch.empty_like(q)
        paged_decode(
            q, k_pool, v_pool, kv_indptr[: q.shape[0] + 1], kv_indices, actions, runs, out,
            softmax_scale=module.scaling,
            k_scale=_number(module.k_scale_float), v_scale=_number(module.v_scale_float),
        )  # fmt: skip
        return out.view(q.shape[0], -1)

    return masked


def _number(scale: float | None) -> float:
    return 1.0 if scale is None else float(scale)


def _of_triton(backend: Any) -> tuple[Tensor, Tensor]:
    return backend.forward_metadata.kv_indptr, backend.forward_metadata.kv_indices


def _of_flashinfer(backend: Any) -> tuple[Tensor, Tensor]:
    return backend.kv_indptr[0], backend.cuda_graph_kv_indices[0]


_BACKENDS: dict[str, Masked] = {
    "FlashAttentionBackend": _masked_lengths,
    "TritonAttnBackend": _own_kernel(_of_triton),
    "FlashInferAttnBackend": _own_kernel(_of_flashinfer),
}
