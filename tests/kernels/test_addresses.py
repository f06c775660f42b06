"""Addresses: offsets beyond 2**31 elements, and no read outside what a kernel was given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from gpu_tests.needs import needs_float8
from properties.kernels.far import FAR, check_far_gemm, check_far_rows, check_far_slots, far
from properties.kernels.judge import make_span
from vskipper.kernels.decode_attention import paged_decode
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.interpreter import interpreted
from vskipper.kernels.scatter import scatter_rows
from vskipper.kernels.silu_mul import silu_mul


def test_far_rows_and_weights(device: torch.device) -> None:
    check_far_gemm(device, bounded_gemm)
    check_far_rows(device, scatter_rows, silu_mul)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_far_slots(index_dtype: torch.dtype, device: torch.device) -> None:
    if not interpreted():
        needs_float8()
    check_far_slots(device, paged_decode, index_dtype)


def test_a_far_tensor_is_far(device: torch.device) -> None:
    assert FAR * far(16, device).stride(0) > 2**31


class Reads:
    """Addresses that interpreted kernels have read."""

    def __init__(self) -> None:
        self.addresses: list[np.ndarray] = []

    def inside(self, tensor: Tensor) -> int:
        """How many reads fell into the tensor's memory, gaps of its strides included."""
        first = tensor.data_ptr()
        last = first + tensor.element_size() * sum(
            (n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)
        )
        seen = np.concatenate(self.addresses).astype(np.int64)
        return int(((seen >= first) & (seen <= last)).sum())


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    if not interpreted():
        pytest.skip("reads are seen in the interpreter only")
    from triton.runtime.interpreter import InterpreterBuilder

    log, load = Reads(), InterpreterBuilder.create_masked_load

    def recorded(self: InterpreterBuilder, pointers, mask, *rest):  # type: ignore[no-untyped-def]
        log.addresses.append(pointers.data[mask.data].ravel())
        return load(self, pointers, mask, *rest)

    monkeypatch.setattr(InterpreterBuilder, "create_masked_load", recorded)
    yield log


def test_the_weight_is_read_once_and_nothing_around_it(reads: Reads, device: torch.device) -> None:
    buffer = torch.ones(3 * 37, 50, device=device)
    before, weight, after = buffer[:37], buffer[37:74], buffer[74:]
    out = torch.zeros(5, 37, device=device)
    bounded_gemm(torch.ones(5, 50), weight, make_span([0, 1, 2, 3, 4], 1, 4, device), out, gather=True, scatter=True)
    assert reads.inside(weight) == weight.numel()
    assert reads.inside(before) == reads.inside(after) == 0


def test_an_empty_span_reads_no_weight(reads: Reads, device: torch.device) -> None:
    weight, out = torch.ones(40, 50, device=device), torch.zeros(5, 40, device=device)
    bounded_gemm(torch.ones(5, 50), weight, make_span([0, 1, 2, 3, 4], 2, 2, device), out, gather=True, scatter=True)
    assert reads.inside(weight) == 0
    assert reads.addresses


def test_masked_rows_read_no_kv(reads: Reads, device: torch.device) -> None:
    pool = torch.ones(2, 6, 2, 16, device=device)
    q = torch.ones(3, 4, 16, device=device)
    paged_decode(
        q,
        pool[0],
        pool[1],
        torch.tensor([0, 2, 4, 6], dtype=torch.int32, device=device),
        torch.tensor([0, 1, 2, 3, 4, 5], dtype=torch.int32, device=device),
        torch.tensor([3, 2, 3], dtype=torch.uint8, device=device),
        torch.tensor([True, True, False], device=device),
        torch.empty_like(q),
        softmax_scale=1.0,
    )
    for side in pool:
        assert reads.inside(side[:2]) == side[:2].numel()
        assert reads.inside(side[2:]) == 0
