"""Which GPUs the kernels are compiled for."""

from __future__ import annotations

from typing import Final

import torch

from vskipper.errors import InputError

# tensor cores in bfloat16
OLDEST: Final = (8, 0)


def check_gpu(where: str) -> None:
    """Raises InputError where torch has no CUDA, finds no GPU, or finds one older than the kernels need."""
    if not torch.cuda.is_available():
        got = "a torch without CUDA" if torch.version.cuda is None else "no GPU"
        raise InputError("no CUDA device", where=where, got=got, expected="a GPU that torch can use")
    found = torch.cuda.get_device_capability()
    if found < OLDEST:
        got, expected = (f"compute capability {major}.{minor}" for major, minor in (found, OLDEST))
        raise InputError("an older GPU", where=where, got=got, expected=f"{expected} or later")
