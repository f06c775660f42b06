"""Which GPUs are refused by name, and for which a test of gpu_tests is skipped."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gpu_tests.needs import GIB, far_memory, needs_float8
from properties.kernels.far import ROWS_BYTES, SLOTS_BYTES
from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return monkeypatch


def test_an_older_gpu_is_named(present: pytest.MonkeyPatch) -> None:
    present.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    with pytest.raises(InputError, match=r"an older GPU \[here\]: got compute .* 7.5, expected .* 8.0 or later"):
        check_gpu("here")


@pytest.mark.parametrize("found", [(8, 0), (8, 9), (9, 0), (10, 0)])
def test_later_ones_are_taken(present: pytest.MonkeyPatch, found: tuple[int, int]) -> None:
    present.setattr(torch.cuda, "get_device_capability", lambda index: found)
    check_gpu("here")


@pytest.mark.parametrize(("built", "got"), [(None, "a torch without CUDA"), ("13.0", "no GPU")])
def test_none_at_all_is_named(monkeypatch: pytest.MonkeyPatch, built: str | None, got: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(InputError, match=f"no CUDA device .*: got {got}"):
        check_gpu("here")


@pytest.mark.parametrize(("found", "skips"), [((8, 0), True), ((8, 6), True), ((8, 9), False), ((9, 0), False)])
def test_float8_is_asked_of_later_ones(monkeypatch: pytest.MonkeyPatch, found: tuple[int, int], skips: bool) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: found)
    if not skips:
        needs_float8()
        return
    with pytest.raises(pytest.skip.Exception, match=r"need compute capability 8\.9"):
        needs_float8()


def test_far_addresses_are_asked_of_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    total = SimpleNamespace(total_memory=24 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: total)
    with far_memory(ROWS_BYTES):
        total.total_memory = 15 * GIB
    with (
        pytest.raises(pytest.skip.Exception, match="far addresses take 12 GiB, of a GPU with 15"),
        far_memory(ROWS_BYTES),
    ):
        pytest.fail("it was run")
    with far_memory(SLOTS_BYTES):
        pass
