"""From a step's plan to its row tensors and row-to-memory maps; made anew for every step (clause MAP-2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from reference.plan import Chunk, StepPlan
from vskipper.policy import Phase, RowBatch
from vskipper.request_key import request_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """batch: what a policy sees. out_cache_loc: int64 [rows], the slot each row writes. slot_table: int64
    [rows, longest context], slots of the positions a row attends to; lengths: int64 [rows]. kv_indptr, kv_indices: the
    same contexts back to back. last: int64 [chunks], each chunk's last row."""

    batch: RowBatch
    out_cache_loc: Tensor
    slot_table: Tensor
    lengths: Tensor
    kv_indptr: Tensor
    kv_indices: Tensor
    last: Tensor


def build_rows(plan: StepPlan, page_size: int) -> Rows:
    """Row tensors of a plan; padding rows come last, write to slot 0 and have an empty context."""
    contexts = [slots for chunk in plan.chunks for slots in _contexts(chunk, page_size)] + [()] * plan.padding
    lengths = torch.tensor([len(slots) for slots in contexts], dtype=torch.int64)
    table = torch.zeros(len(contexts), max((len(slots) for slots in contexts), default=0), dtype=torch.int64)
    for row, slots in enumerate(contexts):
        table[row, : len(slots)] = torch.tensor(slots, dtype=torch.int64)
    own = [slot for chunk in plan.chunks for slot in chunk.own_slots(page_size)]
    sizes = torch.tensor([len(chunk.tokens) for chunk in plan.chunks], dtype=torch.int64)
    return Rows(
        batch=_batch(plan),
        out_cache_loc=torch.tensor(own + [0] * plan.padding, dtype=torch.int64),
        slot_table=table,
        lengths=lengths,
        kv_indptr=torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32),
        kv_indices=torch.tensor([slot for slots in contexts for slot in slots], dtype=torch.int64),
        last=sizes.cumsum(0) - 1,
    )


def _contexts(chunk: Chunk, page_size: int) -> list[tuple[int, ...]]:
    """The slots each row of the chunk attends to: positions 0 up to its own."""
    slots = chunk.context_slots(chunk.start + len(chunk.tokens), page_size)
    return [slots[: chunk.start + i + 1] for i in range(len(chunk.tokens))]


def _batch(plan: StepPlan) -> RowBatch:
    rows = [
        (request_key(chunk.request), chunk.start + i, token, int(Phase[chunk.phase.upper()]))
        for chunk in plan.chunks
        for i, token in enumerate(chunk.tokens)
    ] + [(0, 0, 0, int(Phase.DECODE))] * plan.padding
    keys, positions, tokens, phases = (torch.tensor(column, dtype=torch.int64) for column in zip(*rows, strict=True))
    valid = torch.arange(len(rows)) < plan.rows
    return RowBatch(request_keys=keys, positions=positions, token_ids=tokens, phases=phases.to(torch.int8), valid=valid)
