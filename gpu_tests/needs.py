"""What single tests ask of a GPU beyond what all of them do. Where it is not there the test is skipped, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
import torch

from vskipper.kernels.gpu import FLOAT8, has_float8

# of a GPU's memory, for a test of far addresses: other processes test beside it
SHARE: Final = 0.75
GIB: Final = 2**30
# one after the other, in one process
together: Final = pytest.mark.xdist_group("far")


def needs_float8() -> None:
    """K and V in float8_e4m3fn."""
    if not has_float8():
        pytest.skip(f"kernels over float8_e4m3fn need compute capability {FLOAT8[0]}.{FLOAT8[1]}")


@contextmanager
def far_memory(needed: int) -> Iterator[None]:
    """Room for so many bytes, given back to the GPU at the end."""
    found = torch.cuda.get_device_properties().total_memory
    if found * SHARE < needed:
        pytest.skip(f"far addresses take {needed / GIB:.0f} GiB, of a GPU with {found / GIB:.0f}")
    try:
        yield
    finally:
        torch.cuda.empty_cache()
