"""Which GPUs are refused by name."""

from __future__ import annotations

import pytest
import torch

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
