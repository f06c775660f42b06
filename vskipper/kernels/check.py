"""What a kernel's wrapper demands of its tensors; every refusal is an InputError with the values (clause IN-1)."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.cohort import Span
from vskipper.errors import InputError
from vskipper.kernels.interpreter import interpreted

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def require(holds: bool, what: str, *, where: str, got: object, expected: object) -> None:
    """Raise InputError unless `holds`."""
    if not holds:
        raise InputError(what, where=where, got=got, expected=expected)


def check_device(where: str, device: torch.device) -> None:
    """The device must be the one this process's kernels run on."""
    runs = "cpu" if interpreted() else "cuda"
    hint = "" if interpreted() else " (on a CPU, set TRITON_INTERPRET=1 before vskipper.kernels is imported)"
    require(device.type == runs, "kernels cannot run here", where=where, got=device, expected=f"{runs}{hint}")


def check_tensor(
    where: str, tensor: Tensor, *, dims: int, dtypes: tuple[torch.dtype, ...], device: torch.device
) -> None:
    """Number of dimensions, dtype, device, and a unit stride in the last dimension."""
    require(tensor.dim() == dims, "wrong shape", where=where, got=tuple(tensor.shape), expected=f"{dims} dimensions")
    require(tensor.dtype in dtypes, "wrong dtype", where=where, got=tensor.dtype, expected=_either(dtypes))
    require(tensor.device == device, "wrong device", where=where, got=tensor.device, expected=device)
    unit = dims == 0 or tensor.numel() == 0 or tensor.shape[-1] == 1 or tensor.stride(-1) == 1
    require(unit, "wrong stride", where=where, got=tensor.stride(), expected="unit stride in the last dimension")


def check_size(where: str, tensor: Tensor, dim: int, size: int) -> None:
    require(
        tensor.shape[dim] == size,
        f"wrong size of dimension {dim}",
        where=where,
        got=tuple(tensor.shape),
        expected=size,
    )


def check_capacity(where: str, tensor: Tensor, capacity: int) -> None:
    """A tensor that is indexed by row, packed or original, must hold every row of the plan."""
    require(
        tensor.shape[0] >= capacity,
        "too few rows",
        where=where,
        got=tuple(tensor.shape),
        expected=f"{capacity} rows or more",
    )


def check_written(where: str, tensor: Tensor) -> None:
    """No two elements of a tensor that is written may share memory."""
    if tensor.numel() == 0:
        return
    # a stride of an outer dimension must step over everything inside it, in order of stride
    extent = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        require(
            size <= 1 or stride >= extent,
            "elements overlap",
            where=where,
            got=f"shape {tuple(tensor.shape)}, strides {tensor.stride()}",
            expected="a tensor whose elements do not share memory",
        )
        extent += (size - 1) * stride


def check_span(where: str, span: Span, device: torch.device) -> None:
    """rows int32 [capacity], contiguous; start and stop int32 scalars; all on `device`."""
    check_tensor(f"{where}: span.rows", span.rows, dims=1, dtypes=(torch.int32,), device=device)
    check_tensor(f"{where}: span.start", span.start, dims=0, dtypes=(torch.int32,), device=device)
    check_tensor(f"{where}: span.stop", span.stop, dims=0, dtypes=(torch.int32,), device=device)


def check_scale(where: str, scale: Tensor | None, dtype: torch.dtype, capacity: int, device: torch.device) -> None:
    """scale: one factor for each original row, in the dtype of the result."""
    if scale is None:
        return
    check_tensor(f"{where}: scale", scale, dims=1, dtypes=(dtype,), device=device)
    check_capacity(f"{where}: scale", scale, capacity)


def _either(dtypes: tuple[torch.dtype, ...]) -> str:
    return " or ".join(str(dtype) for dtype in dtypes)
