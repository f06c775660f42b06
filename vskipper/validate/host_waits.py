"""See every point at which code makes the host wait for a device, on any device: torch's own function and dispatch
modes watch the calls as they are made, on real tensors, so that own kernels run as ever."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from vskipper.locate import UNKNOWN

_READS: dict[Any, str] = {
    torch.Tensor.item: ".item()",
    torch.Tensor.tolist: ".tolist()",
    torch.Tensor.numpy: ".numpy()",
    torch.Tensor.cpu: ".cpu()",
    torch.Tensor.__array__: "tensor as a numpy array",
    torch.Tensor.__bool__: "bool(tensor)",
    torch.Tensor.__int__: "int(tensor)",
    torch.Tensor.__float__: "float(tensor)",
    torch.Tensor.__index__: "tensor as a Python index",
    torch.Tensor.__contains__: "value in tensor",
    torch.Tensor.__repr__: "repr(tensor)",
    torch.Tensor.__format__: "format(tensor)",
}
_FROM_HOST = {torch.tensor: "torch.tensor", torch.as_tensor: "torch.as_tensor", torch.asarray: "torch.asarray"}
_FROM_HOST_TO_DEVICE = {torch.Tensor.new_tensor: ".new_tensor"}
_INDEX = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)
_VALUE_DEPENDENT = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_TORCH = torch.__path__[0]


class HostWait(Exception):
    """Raised in the watched code. call: what waits. location: file:line."""

    def __init__(self, call: str, location: str) -> None:
        super().__init__(f"{call} at {location}")
        self.call = call
        self.location = location


@contextmanager
def watch_host(files: frozenset[str]) -> Iterator[list[HostWait]]:
    """Raise HostWait wherever the code inside makes the host wait; the list given keeps every one, caught or not.

    files: sources whose line is to be named, where one of them is on the stack; else the innermost line outside torch.
    """
    found: list[HostWait] = []

    def stop(call: str) -> None:
        found.append(HostWait(call, _calling_line(files)))
        raise found[-1]

    synchronize = torch.cuda.synchronize
    torch.cuda.synchronize = lambda device=None: stop("torch.cuda.synchronize()")
    try:
        with _Functions(stop), _Operators(stop):
            yield found
    finally:
        torch.cuda.synchronize = synchronize


def _calling_line(files: frozenset[str]) -> str:
    frame: FrameType | None = sys._getframe(1)
    nearest = UNKNOWN
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if file in files:
            return f"{file}:{line}"
        if nearest == UNKNOWN and file != __file__ and not file.startswith(_TORCH):
            nearest = f"{file}:{line}"
        frame = frame.f_back
    return nearest


class _Functions(TorchFunctionMode):
    """Sees calls under the name they were made by; some read a tensor on the host without any operator."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        super().__init__()
        self._stop = stop

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        call = _READS.get(func) or _copies_in(func, args, kwargs) or _copies_out(func, args, kwargs)
        if call is not None:
            self._stop(call)
        return func(*args, **kwargs)


def _copies_in(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Python data made into a tensor: a copy that waits, unless it is one number for torch to pass by value."""
    if func in _FROM_HOST_TO_DEVICE:
        return f"{_FROM_HOST_TO_DEVICE[func]}(Python data)"
    if func not in _FROM_HOST:
        return None
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    by_value = isinstance(data, Tensor) or (isinstance(data, int | float) and kwargs.get("device") is None)
    return None if by_value else f"{_FROM_HOST[func]}(Python data)"


def _copies_out(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    if func is not torch.Tensor.to or not isinstance(args[0], Tensor):
        return None
    for target in (*args[1:], *kwargs.values()):
        if not isinstance(target, str | torch.device):
            continue
        # where the pass runs on a CPU, only the name spelt out tells a copy to the host from one to the pass's device
        if target == "cpu" or (torch.device(target).type == "cpu" and args[0].device.type != "cpu"):
            return '.to("cpu")'
    return None


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees operators whose result, or its shape, the host knows only once the device has computed it."""

    def __init__(self, stop: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._stop = stop

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _waits(func, args, kwargs):
            self._stop(f"operator {func}")
        return func(*args, **kwargs)


def _waits(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    if func in _INDEX:
        masks = [index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8)]
        # one value under a mask is a masked fill: no row is counted
        filled = func is not torch.ops.aten.index.Tensor and args[2].numel() == 1
        return bool(masks) and not filled
    if func is torch.ops.aten.repeat_interleave.Tensor:
        return kwargs.get("output_size") is None
    return not _VALUE_DEPENDENT.isdisjoint(func.tags)
