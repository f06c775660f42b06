"""Tensors from a .pt file, read without running what it holds: plain CPU tensors by name, or one InputError."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import torch
from torch import Tensor

from vskipper.errors import InputError
from vskipper.files import openable

_EXPECTED = "tensors alone, by name"
# how the two unpicklers name an object that they refuse
_FOREIGN = re.compile(r"GLOBAL (\w+(?:\.\w+)*)")


def read_pt(path: Path) -> dict[str, Tensor]:
    """Tensors by name, on the CPU; raises InputError that names the file, and the tensor where one is at fault."""
    openable(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # weights_only: a pickle that names anything but tensors and containers is refused, not run
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError("weights cannot be read", where=path, got=error, expected="a readable file") from error
    # a damaged pickle fails as whatever its bytes happen to lead to
    except Exception as error:
        raise InputError("weights cannot be read", where=path, got=_got(error), expected=_EXPECTED) from error
    if not isinstance(loaded, dict) or not all(isinstance(t, Tensor) for t in loaded.values()):
        got = type(loaded).__name__ if not isinstance(loaded, dict) else "values that are no tensors"
        raise InputError("weights cannot be used", where=path, got=got, expected="a dict of tensors by name")
    tensors = {str(name): tensor.detach() for name, tensor in loaded.items()}
    for name, tensor in tensors.items():
        _check_plain(name, tensor, path)
    return tensors


def _got(error: Exception) -> str:
    """In words of our own: torch's advise to load the file with its code."""
    foreign = _FOREIGN.search(str(error))
    if foreign is not None:
        return f"objects other than tensors ({foreign[1]})"
    return f"a damaged file, or none that torch.save wrote ({type(error).__name__})"


def _check_plain(name: str, tensor: Tensor, path: Path) -> None:
    kind = None
    if tensor.device.type != "cpu":
        kind = f"a tensor on {tensor.device.type}"
    elif tensor.is_quantized:
        kind = f"a quantised tensor, {tensor.dtype}"
    elif tensor.is_nested or tensor.layout != torch.strided:
        kind = f"a tensor of layout {tensor.layout}"
    if kind is not None:
        raise InputError("weights cannot be used", where=f"{path}: {name}", got=kind, expected="a dense tensor")
