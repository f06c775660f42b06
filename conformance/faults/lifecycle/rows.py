"""Faults of the rows of a pass: whose they are and what the policy is told of them. Clause LIFE-1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from conformance.faults.lifecycle.make import lifecycle_fault
from vskipper.policy import RowBatch


def _with(**changed: Callable[[Tensor], Tensor]) -> Any:
    """Some of what the policy sees, changed."""

    def patch(original: Any) -> Any:
        def broken(**values: Any) -> RowBatch:
            return RowBatch(**{**values, **{name: change(values[name]) for name, change in changed.items()}})

        return broken

    return patch


def _count(like: Tensor) -> Tensor:
    return torch.arange(like.numel(), device=like.device)


def _told_numbers(original: Any) -> Any:
    """The policy alone is told: rows are still rotated as their positions ask."""

    def broken(policy: Any, layers: Any, rows: RowBatch, *arguments: Any, **keywords: Any) -> Any:
        told = replace(rows, positions=_count(rows.positions))
        return replace(original(policy, layers, told, *arguments, **keywords), positions=rows.positions)

    return broken


def _other_order(original: Any) -> Any:
    """The requests of a batch in another order than their rows."""

    def broken(states: Any, *rest: Any) -> Any:
        return original(list(reversed(states)), *rest)

    return broken


def _from_chunk(original: Any) -> Any:
    """Positions are counted from the start of the chunk."""

    def broken(forward_batch: Any, requests: int) -> list[tuple[int, int]]:
        return [(0 if count > 1 else first, count) for first, count in original(forward_batch, requests)]

    return broken


def _prefix_from_first_row(original: Any) -> Any:
    """In a mixed pass all requests are taken to go on where the first of them does."""

    def broken(forward_batch: Any, requests: int) -> list[tuple[int, int]]:
        places = original(forward_batch, requests)
        return [(places[0][0], count) for _, count in places]

    return broken


ROWS = "vskipper.sglang.batches:RowBatch"
PLACES = "vskipper.sglang.batches:row_positions"
QUIET = ("life.slots", "cache.isolated")
FAULTS = (
    lifecycle_fault(
        id="request-key-of-row",
        title="the policy is given the row's number for its request",
        source="tt-xla#5778",
        seam=ROWS,
        patch=_with(request_keys=_count),
        killer="life.alone",
        reason="wrong_route",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="request-keys-rotated",
        title="the policy is given each row's neighbour's request",
        source="vllm#26385",
        seam=ROWS,
        patch=_with(request_keys=lambda keys: keys.roll(1)),
        killer="life.alone",
        reason="wrong_route",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="tokens-rotated",
        title="the policy is given each row's neighbour's token",
        source="vllm#28787",
        seam=ROWS,
        patch=_with(token_ids=lambda tokens: tokens.roll(1)),
        killer="life.alone",
        reason="wrong_route",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="positions-of-pass",
        title="the policy is given the row's number in the pass for its position",
        source="kekzl/imp#692",
        seam="vskipper.sglang.decoder:open_pass",
        patch=_told_numbers,
        killer="life.alone",
        reason="wrong_route",
        quiet=QUIET,
    ),
    lifecycle_fault(
        id="positions-from-chunk",
        title="positions are counted from the start of a chunk",
        source="sglang#16103",
        seam=PLACES,
        patch=_from_chunk,
        killer="life.alone",
        reason="recorded_of_another_row",
        quiet=("life.slots", "cache.private"),
    ),
    lifecycle_fault(
        id="positions-of-first-request",
        title="every request of a pass goes on where the first does",
        source="sglang#14180",
        seam=PLACES,
        patch=_prefix_from_first_row,
        killer="life.alone",
        reason="recorded_of_another_row",
        quiet=("life.slots", "cache.private"),
    ),
    lifecycle_fault(
        id="requests-in-another-order",
        title="a batch's requests are taken in another order than its rows",
        source="tt-xla#5778",
        seam="vskipper.sglang.process:BatchPass",
        patch=_other_order,
        killer="life.alone",
        reason="recorded_of_another_row",
        quiet=("life.slots", "cache.private"),
    ),
)
