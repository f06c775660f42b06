"""The raw KV pool as bytes: what a step changed, what it left, and poison to make a stray read or write show.

Everything here works on the runtime's own tensors, never through its getters, and a snapshot is always a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from properties.transfer import copies

Kv = Sequence[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One slot of one layer whose bytes changed. part: k or v. byte: the first that differs."""

    layer: int
    part: str
    slot: int
    byte: int


def snapshot(kv: Kv) -> tuple[tuple[Tensor, Tensor], ...]:
    """The bytes of K and V of each layer, uint8 [slots, bytes], copied."""
    own = copies([part for pair in kv for part in pair], "cpu")
    found = [each.view(torch.uint8).reshape(each.shape[0], -1) for each in own]
    return tuple(zip(found[::2], found[1::2], strict=True))


def changed_slots(before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]) -> set[int]:
    """Slots of one layer with a changed byte in K or V."""
    moved = (before[0] != after[0]).any(1) | (before[1] != after[1]).any(1)
    return set(torch.nonzero(moved).flatten().tolist())


def touched(before: Kv, after: Kv, allowed: Iterable[int]) -> Touched | None:
    """The first slot outside `allowed` whose bytes changed, by layer."""
    for layer, (old, new) in enumerate(zip(before, after, strict=True)):
        stray = changed_slots(old, new) - set(allowed)
        if stray:
            slot = min(stray)
            part = 0 if bool((old[0][slot] != new[0][slot]).any()) else 1
            byte = int(torch.nonzero(old[part][slot] != new[part][slot])[0])
            return Touched(layer=layer, part="kv"[part], slot=slot, byte=byte)
    return None


def fill_nan(kv: Kv, slots: Sequence[int] | None = None) -> None:
    """NaN in every slot, or in `slots`: whoever reads one before it is written carries NaN on."""
    index = None if slots is None else torch.tensor(slots, dtype=torch.int64).to(kv[0][0].device)
    for tensor in (part for layer in kv for part in layer):
        nan = torch.full((), torch.nan, dtype=torch.float32, device=tensor.device).to(tensor.dtype)
        if index is None:
            tensor.copy_(nan.expand_as(tensor))
        else:
            tensor[index] = nan


def fill_pattern(kv: Kv, seed: int) -> None:
    """Finite values, exact in every dtype, that differ from slot to slot and layer to layer: a stray copy shows."""
    for number, tensor in enumerate(part for layer in kv for part in layer):
        count = torch.arange(tensor.numel(), dtype=torch.int64)
        values = ((count * 37 + number * 11 + seed) % 61 - 30).to(torch.float32) / 8
        tensor.copy_(values.view(tensor.shape).to(tensor.dtype))
