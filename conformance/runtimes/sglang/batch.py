"""The engine's ForwardBatch of a step, built by hand; its row-to-memory maps are made anew for every step (MAP-2)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from properties.transfer import copies
from reference.plan import Chunk, StepPlan

# whose request is no request; its row of the engine's table holds the dummy slot
NOBODY = "padding"


def forward_batch(runner: Any, plan: StepPlan, page_size: int) -> Any:
    """On the runner's device: a decode batch where every chunk decodes, an extend batch where none does; in a mixed one
    a decode row is an extend of one. Padding rows come last: requests of one row each in a decode batch, as the engine
    pads a captured one, and one request otherwise. What this version's ForwardBatch has no field for is left out."""
    info = import_module("sglang.srt.model_executor.forward_batch_info")
    decodes = [chunk.phase == "decode" for chunk in plan.chunks]
    chunks = (*plan.chunks, *_padding(plan.padding, apart=all(decodes)))
    values = _rows(chunks, page_size) | _requests(runner, chunks, page_size) | _settings(runner, plan, info)
    if all(decodes):
        values["forward_mode"] = info.ForwardMode.DECODE
    else:
        values["forward_mode"] = info.ForwardMode.MIXED if any(decodes) else info.ForwardMode.EXTEND
        values |= _extend(chunks)
    known = info.ForwardBatch.__dataclass_fields__
    values = {name: value for name, value in values.items() if name in known}
    moved = [name for name, value in values.items() if torch.is_tensor(value) and not name.endswith("_cpu")]
    values |= dict(zip(moved, copies([values[name] for name in moved], runner.device), strict=True))
    with torch.device(runner.device):
        batch = info.ForwardBatch(**values)
        _bind(runner, batch)
    return batch


def _padding(rows: int, *, apart: bool) -> tuple[Chunk, ...]:
    if rows == 0:
        return ()
    whole = Chunk(request=NOBODY, tokens=(0,) * rows, start=0, pages=(), phase="prefill")
    one = Chunk(request=NOBODY, tokens=(0,), start=0, pages=(), phase="decode")
    return (one,) * rows if apart else (whole,)


def _rows(chunks: Sequence[Chunk], page_size: int) -> dict[str, Any]:
    return {
        "input_ids": torch.tensor([token for chunk in chunks for token in chunk.tokens]),
        "positions": torch.tensor([position for chunk in chunks for position in range(chunk.start, _end(chunk))]),
        "out_cache_loc": torch.tensor([slot for chunk in chunks for slot in _own_slots(chunk, page_size)]),
    }


def _requests(runner: Any, chunks: Sequence[Chunk], page_size: int) -> dict[str, Any]:
    ends = torch.tensor([_end(chunk) for chunk in chunks])
    return {
        "batch_size": len(chunks),
        "req_pool_indices": _fill_table(runner.req_to_token_pool.req_to_token, chunks, page_size),
        "seq_lens": ends,
        "seq_lens_cpu": ends.clone(),
        "seq_lens_sum": int(ends.sum()),
        "orig_seq_lens": ends.to(torch.int32),
    }


def _settings(runner: Any, plan: StepPlan, info: Any) -> dict[str, Any]:
    return {
        "return_logprob": False,
        "capture_hidden_mode": info.CaptureHiddenMode.NULL,
        "spec_algorithm": import_module("sglang.srt.speculative.spec_info").SpeculativeAlgorithm.NONE,
        "num_token_non_padded_cpu": plan.rows + plan.padding,
        "global_num_token_non_padded_cpu": plan.rows + plan.padding,
        # for versions whose passes have no context that names these
        "req_to_token_pool": runner.req_to_token_pool,
        "token_to_kv_pool": runner.token_to_kv_pool,
        "attn_backend": runner.attn_backend,
    }


def _extend(chunks: Sequence[Chunk]) -> dict[str, Any]:
    starts = [chunk.start for chunk in chunks]
    lengths = [len(chunk.tokens) for chunk in chunks]
    first_rows = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    return {
        "extend_num_tokens": sum(lengths),
        "extend_seq_lens": torch.tensor(lengths, dtype=torch.int32),
        "extend_seq_lens_cpu": lengths,
        "extend_prefix_lens": torch.tensor(starts, dtype=torch.int32),
        "extend_prefix_lens_cpu": starts,
        "extend_start_loc": first_rows.to(torch.int32),
        "extend_logprob_start_lens_cpu": [0] * len(lengths),
        "top_logprobs_nums": [0] * len(lengths),
        "token_ids_logprobs": [None] * len(lengths),
    }


def _fill_table(table: Tensor, chunks: Sequence[Chunk], page_size: int) -> Tensor:
    """Write each chunk's slots into a row of the engine's request table; the rows' numbers, int64 [chunks]."""
    # past a request's end lies the dummy page
    lines = torch.zeros(len(chunks), table.shape[1], dtype=table.dtype)
    for line, chunk in zip(lines, chunks, strict=True):
        if chunk.request != NOBODY:
            slots = chunk.context_slots(_end(chunk), page_size)
            line[: len(slots)] = torch.tensor(slots)
    table[1 : len(chunks) + 1] = lines.to(table.device)
    return torch.arange(1, len(chunks) + 1)


def _own_slots(chunk: Chunk, page_size: int) -> Sequence[int]:
    return [0] * len(chunk.tokens) if chunk.request == NOBODY else chunk.own_slots(page_size)


def _end(chunk: Chunk) -> int:
    return chunk.start + len(chunk.tokens)


def _bind(runner: Any, batch: Any) -> None:
    """Have the batch's write locations translated, where the engine tells virtual slots from physical ones."""
    translator = getattr(runner, "kv_index_translator", None)
    bind = getattr(translator, "bind_own_plan", None) or getattr(translator, "rebind_write_loc", None)
    if bind is not None:
        bind(batch)
