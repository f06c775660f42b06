"""Which GPUs the kernels are compiled for."""

from __future__ import annotations

import warnings
from typing import Final

import torch

from vskipper.errors import InputError

# tensor cores in bfloat16
OLDEST: Final = (8, 0)
# kernels over float8_e4m3fn; Triton compiles none for older ones
FLOAT8: Final = (8, 9)


def has_gpu() -> bool:
    """Whether torch can use a CUDA GPU. A driver that is too old for it is none, of which torch warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.cuda.is_available()


def has_float8(index: int | None = None) -> bool:
    """index: as in check_gpu(). Whether the kernels take float8_e4m3fn on the GPU."""
    return torch.cuda.get_device_capability(index) >= FLOAT8


def check_gpu(where: str, index: int | None = None) -> None:
    """index: torch's of the GPU, None for the current one. Raises InputError where torch has no CUDA, or finds no such
    GPU or one older than the kernels need."""
    if not has_gpu():
        got = "a torch without CUDA" if torch.version.cuda is None else "no GPU"
        raise InputError("no CUDA device", where=where, got=got, expected="a GPU that torch can use")
    if index is not None and index >= torch.cuda.device_count():
        raise InputError("no such GPU", where=where, got=index, expected=f"below {torch.cuda.device_count()}")
    found = torch.cuda.get_device_capability(index)
    if found < OLDEST:
        got, expected = (f"compute capability {major}.{minor}" for major, minor in (found, OLDEST))
        raise InputError("an older GPU", where=where, got=got, expected=f"{expected} or later")
