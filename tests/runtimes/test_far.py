"""A pool whose tensors share one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import pytest
import torch
from torch import Tensor

from conformance.runtimes.sglang.around import around
from conformance.runtimes.sglang.engine import open_engine
from conformance.runtimes.sglang.graphs.far import APART, Windows, _in_one_piece
from conformance.runtimes.sglang.pool import new_pool, raw
from conformance.subjects import SubjectSpec, build_subject
from reference.plan import PoolLayout
from tests.engine import needs_sglang

SLOTS = 40 * APART
# used at either end, of layers that are at most so many
LAYERS = 12
ENDS = [*range(4), *range(SLOTS - 4 - LAYERS * APART, SLOTS - LAYERS * APART)]


def check_apart(tensors: Sequence[Tensor]) -> None:
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
    for number, tensor in enumerate(tensors):
        tensor[ENDS] = float(number)
    assert [tensor[ENDS].unique().tolist() for tensor in tensors] == [[number] for number in range(len(tensors))]


def test_windows_share_their_memory_and_no_slot_at_either_end() -> None:
    zeros = Windows(torch.zeros, 3)
    check_apart([zeros((SLOTS, 1, 2), dtype=torch.float16) for _ in range(3)])


def test_k_and_v_may_be_made_together() -> None:
    zeros = Windows(torch.zeros, 6)
    pairs = [zeros((2, SLOTS, 1, 2), dtype=torch.float16) for _ in range(3)]
    check_apart([part for pair in pairs for part in pair])


@pytest.mark.parametrize("shape", [(SLOTS, 2), (4, 1, 16, 2), (2, 2, 4, 16, 2)])
def test_tensors_of_another_form_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="number 1 of shape"):
        Windows(torch.zeros, 2)(shape)


def test_more_tensors_than_the_pool_has_are_refused() -> None:
    zeros = Windows(torch.zeros, 1)
    zeros((SLOTS, 1, 2))
    with pytest.raises(RuntimeError, match="got number 2"):
        zeros((SLOTS, 1, 2))


@needs_sglang
def test_the_engine_s_pool_is_made_in_one_piece() -> None:
    model = build_subject(SubjectSpec(runtime="sglang", model="tiny-llama")).model
    like = open_engine(model).pool
    pool_class = import_module("sglang.srt.mem_cache.memory_pool").MHATokenToKVPool
    with around(pool_class, "_create_buffers", _in_one_piece):
        pool = new_pool(like, PoolLayout(page_size=1, pages=SLOTS))
    check_apart([part for pair in raw(pool) for part in pair])
