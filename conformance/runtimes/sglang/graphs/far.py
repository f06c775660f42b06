"""An engine whose K and V of a layer are many gigabytes long and share one piece of memory: the slots that a case uses,
at either end, are no other layer's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any, Final
from unittest import mock

import torch
from torch import Tensor

from conformance.runtimes.sglang.around import around
from conformance.runtimes.sglang.graphs.build import GraphBuilt, build_graphs
from conformance.runtimes.sglang.pool import raw
from conformance.runtimes.sglang.seat import TOKENS, Seat
from properties.runtime import Model
from vskipper.policy import SkipPolicy

# of a GPU's whole memory, for the one piece; weights, graphs and other processes have the rest
KV_SHARE: Final = 0.25
# slots from one tensor's first to the next one's: more than a case has
APART: Final = 2 * TOKENS
# bytes that the engine finds free, since it reckons with as many as all its K and V would take
FREE: Final = 1 << 42


def kv_bytes() -> int:
    """What K, or V, of one layer may take on this GPU."""
    return int(torch.cuda.get_device_properties(0).total_memory * KV_SHARE)


def build_far(
    model: Model, seat: Seat, policy: SkipPolicy, slots: int, *, forced: bool, until: ExitStack
) -> GraphBuilt:
    """An engine whose pool has `slots` slots or more; `until` gives its memory back. Raises RuntimeError where the
    engine made a smaller pool, or one of another form."""
    # where V follows K, its first slots come after the last that any layer's K uses
    needed = slots + 2 * model.config.num_hidden_layers * APART
    page = seat.page_size
    long = replace(seat, tokens=-(-needed // page) * page)
    pool_class = import_module("sglang.srt.mem_cache.memory_pool").MHATokenToKVPool
    with (
        mock.patch.object(torch.cuda, "mem_get_info", lambda *_, **__: (FREE, FREE)),
        around(pool_class, "_create_buffers", _in_one_piece),
    ):
        built = build_graphs(model, long, policy, forced=forced)
    until.callback(_free, built)
    found = raw(built.engine.pool)[0][0].shape[0]
    if found < slots:
        raise RuntimeError(f"slots of the pool: got {found}, expected {slots} or more")
    return built


def _in_one_piece(original: Callable[[Any], None], pool: Any) -> None:
    """Make the pool's tensors parts of one, each APART slots further on than the one before."""
    with mock.patch.object(torch, "zeros", Windows(torch.zeros, 2 * pool.layer_num)):
        original(pool)


class Windows:
    """In place of torch.zeros for at most `most` tensors of one shape: [slots, heads, head dim] for K or V, or
    [2, slots, heads, head dim] for both."""

    def __init__(self, zeros: Callable[..., Tensor], most: int) -> None:
        self._zeros, self._most = zeros, most
        self._whole: Tensor | None = None
        self._given = 0

    def __call__(self, shape: Sequence[int], **keywords: Any) -> Tensor:
        if self._given == self._most or not (len(shape) == 3 or (len(shape) == 4 and shape[0] == 2)):
            got = f"number {self._given + 1} of shape {tuple(shape)}"
            expected = f"at most {self._most} of [slots, heads, head dim], or of two of them"
            raise RuntimeError(f"tensors of the pool: got {got}, expected {expected}")
        rows = math.prod(shape[:-2])
        if self._whole is None:
            self._whole = self._zeros((rows + self._most * APART, *shape[-2:]), **keywords)
        first = self._given * APART
        self._given += 1
        return self._whole[first : first + rows].view(tuple(shape))


def _free(built: GraphBuilt) -> None:
    """At once, whoever still refers to the engine: nobody will run it."""
    torch.cuda.synchronize()
    raw(built.engine.pool)[0][0].untyped_storage().resize_(0)
    torch.cuda.empty_cache()
