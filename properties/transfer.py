"""Tensors copied together: on a GPU each copy by itself waits for the device, and there are dozens a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from properties.bits import bits

# bytes; a kernel is compiled anew for a tensor that begins elsewhere
ALIGNMENT: Final = 16


def copies(tensors: Sequence[Tensor], device: torch.device | str) -> list[Tensor]:
    """Contiguous copies of all, on `device`, in as many transfers as there are element sizes and devices among them.
    They share no memory with what they were copied from."""
    alike: dict[tuple[torch.device, int], list[int]] = {}
    for number, tensor in enumerate(tensors):
        alike.setdefault((tensor.device, tensor.element_size()), []).append(number)
    copied: dict[int, Tensor] = {}
    for (_, size), numbers in alike.items():
        whole = [_padded(bits(tensors[number].detach()).flatten(), ALIGNMENT // size) for number in numbers]
        parts = torch.split(torch.cat(whole).to(device), [each.numel() for each in whole])
        copied |= dict(zip(numbers, parts, strict=True))
    return [
        copied[number][: tensor.numel()].view(tensor.dtype).view(tensor.shape) for number, tensor in enumerate(tensors)
    ]


def _padded(flat: Tensor, multiple: int) -> Tensor:
    return torch.nn.functional.pad(flat, (0, -flat.numel() % multiple))
