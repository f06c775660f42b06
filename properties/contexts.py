"""K/V that a request enters with, written by the suite into any pool: the runtime's raw tensors or the oracle's."""

from __future__ import annotations

import torch
from torch import Tensor

from properties.case import Context, ScheduleCase
from properties.pool import Kv
from properties.transfer import copies
from properties.values import kv_values
from reference.plan import PoolLayout


def place_contexts(kv: Kv, case: ScheduleCase, layout: PoolLayout, step: int) -> None:
    """Write what must be there before pass `step`; layout: the page size and scales of `kv` itself."""
    for context in case.contexts:
        if context.step == step:
            _place(kv, case, context, layout)


def _place(kv: Kv, case: ScheduleCase, context: Context, layout: PoolLayout) -> None:
    own = [torch.tensor(context_slots(context, layout.page_size))]
    for layer, pair in enumerate(kv):
        for part, (tensor, scale) in enumerate(zip(pair, (layout.k_scale, layout.v_scale), strict=True)):
            values = context_values(case.seed, context.request, layer, part, context.length, tensor)
            own.append((values / scale).to(tensor.dtype))
    index, *written = copies(own, kv[0][0].device)
    for tensor, values in zip((part for pair in kv for part in pair), written, strict=True):
        tensor[index] = values


def context_slots(context: Context, page_size: int) -> list[int]:
    """Slots of positions 0 .. length - 1."""
    return [context.pages[p // page_size] * page_size + p % page_size for p in range(context.length)]


def context_values(seed: int, request: str, layer: int, part: int, length: int, like: Tensor) -> Tensor:
    """float32 [length, kv heads, head dim], the same at each position however long the context is."""
    name = int.from_bytes(request.encode(), "little") % 65_521
    values = kv_values(((seed * 65_521 + name) * 512 + layer) * 2 + part, length, like.shape[1], like.shape[2])
    return values.to(torch.float32)
