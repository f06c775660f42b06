"""Copies made together are each what a copy alone is."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from properties.bits import bits
from properties.transfer import ALIGNMENT, copies

DTYPES = (torch.bool, torch.uint8, torch.float8_e4m3fn, torch.bfloat16, torch.float16, torch.int32, torch.float64)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    made = (torch.arange(torch.Size(shape).numel()).reshape(shape) + draw(st.integers(0, 3))).to(dtype)
    return made.transpose(0, -1) if made.dim() > 1 and draw(st.booleans()) else made


@given(st.lists(tensors(), max_size=6))
def test_copies_have_the_bits_and_no_memory_of_what_they_were_copied_from(given: list[Tensor]) -> None:
    found = copies(given, "cpu")
    assert len(found) == len(given)
    for one, other in zip(found, given, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert torch.equal(bits(one), bits(other))
        assert one.is_contiguous() and one.data_ptr() % ALIGNMENT == 0
        assert one.numel() == 0 or one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()
