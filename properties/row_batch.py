"""The rows of a pass as a policy sees them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reference.plan import StepPlan
from reference.random_skip import digest
from vskipper.policy import Phase, RowBatch


def request_key(request: str) -> int:
    """The request id's 8-byte BLAKE2b digest, read as a signed integer."""
    key = digest(request)
    return key - (1 << 64) if key >= 1 << 63 else key


def row_batch(
    requests: Sequence[str], positions: Sequence[int], tokens: Sequence[int], decodes: Sequence[bool], padding: int = 0
) -> RowBatch:
    """One row an entry, then `padding` rows that are not valid."""
    rows = len(requests)
    pad = [0] * padding
    return RowBatch(
        request_keys=torch.tensor([*map(request_key, requests), *pad], dtype=torch.int64),
        positions=torch.tensor([*positions, *pad], dtype=torch.int64),
        token_ids=torch.tensor([*tokens, *pad], dtype=torch.int64),
        phases=torch.tensor([int(Phase.DECODE if d else Phase.PREFILL) for d in decodes] + pad, dtype=torch.int8),
        valid=torch.tensor([True] * rows + [False] * padding),
    )


def batch_of(plan: StepPlan, padding: int = 0) -> RowBatch:
    """The valid rows of a plan, then `padding` rows that are not."""
    rows = [(chunk, index) for chunk in plan.chunks for index in range(len(chunk.tokens))]
    return row_batch(
        [chunk.request for chunk, _ in rows],
        [chunk.start + index for chunk, index in rows],
        [chunk.tokens[index] for chunk, index in rows],
        [chunk.phase == "decode" for chunk, _ in rows],
        padding,
    )
