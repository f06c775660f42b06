"""What a fault gives back is taken again wherever torch's allocator keeps it, on an allocator that is pretended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance.faults.graph.kept import taken

SEGMENT = 2 << 20
DEVICE = torch.device("cpu")


class Allocator:
    """One segment a list of blocks, (bytes, free) each. It gives the smallest free block that is large enough, of
    several the first."""

    def __init__(self, *segments: list[tuple[int, bool]]) -> None:
        self._blocks: dict[int, tuple[int, bool]] = {}
        self.starts = [number * 16 * SEGMENT for number in range(1, len(segments) + 1)]
        for start, blocks in zip(self.starts, segments, strict=True):
            for size, free in blocks:
                self._blocks[start] = size, free
                start += size

    def snapshot(self) -> list[dict[str, Any]]:
        states = {True: "inactive", False: "active_allocated"}
        return [
            {"address": at, "blocks": [{"size": size, "state": states[free]}]}
            for at, (size, free) in self._blocks.items()
        ]

    def ones(self, size: int, **_: Any) -> SimpleNamespace:
        found = min(((held, at) for at, (held, free) in self._blocks.items() if free and held >= size), default=None)
        if found is None:
            return SimpleNamespace(data_ptr=lambda: 0)
        held, at = found
        self._blocks[at] = size, False
        if held > size:
            self._blocks[at + size] = held - size, True
        return SimpleNamespace(data_ptr=lambda: at)


def used(monkeypatch: pytest.MonkeyPatch, allocator: Allocator) -> Allocator:
    monkeypatch.setattr(torch.cuda, "memory_snapshot", allocator.snapshot)
    monkeypatch.setattr(torch, "ones", allocator.ones)
    return allocator


@pytest.mark.parametrize(
    ("segments", "offset", "allocations"),
    [
        # behind many of its size
        ([[(512, True), (512, False)] * 5000, [(512, True)]], 0, 5001),
        # joined to its neighbours, behind smaller ones
        ([[(512, True), (512, False)] * 5000, [(4096, True)]], 512, 1),
        # in the second half of a block that no small tensor fills
        ([[(SEGMENT, True)]], SEGMENT - 512, 2),
        ([[(SEGMENT - 512, True), (512, False)]], SEGMENT - 1024, 2),
    ],
)
def test_the_address_is_handed_out(
    monkeypatch: pytest.MonkeyPatch, segments: list[list[tuple[int, bool]]], offset: int, allocations: int
) -> None:
    allocator = used(monkeypatch, Allocator(*segments))
    assert len(taken(allocator.starts[-1] + offset, DEVICE)) == allocations


def test_an_address_that_somebody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = used(monkeypatch, Allocator([(512, False)]))
    with pytest.raises(RuntimeError, match="is in no free block"):
        taken(allocator.starts[0], DEVICE)


def test_an_address_that_nobody_is_given_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = used(monkeypatch, Allocator([(512, True)]))
    monkeypatch.setattr(torch, "ones", lambda *_, **__: SimpleNamespace(data_ptr=lambda: 0))
    with pytest.raises(RuntimeError, match="handed out to nobody in 4 allocations"):
        taken(allocator.starts[0], DEVICE)
