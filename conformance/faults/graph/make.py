"""How a fault of captured graphs is made: on a small model on a GPU, held against few properties, since each builds its
own engines."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from conformance.faults.fault import Fault
from conformance.runtime_names import CUDA

# what no fault of a captured pass makes slow
QUIET = ("graph.still",)
BUFFERS = "vskipper.sglang.graphs.buffers:GraphBuffers"
# of any graph that the suite captures
MOST_ROWS = 64
graph_fault = partial(Fault, runtime=CUDA, model="small-llama", only_named=True, quiet=QUIET)


class Frozen:
    """Values as they were before a graph was captured, by key: a captured graph copies them in every replay."""

    def __init__(self) -> None:
        self._values: dict[object, Tensor] = {}

    def __call__(self, key: object, value: Tensor) -> Tensor:
        """`value` itself, but where a graph is being captured what it was when last computed."""
        if not torch.cuda.is_current_stream_capturing():
            self._values[key] = value.clone()
            return value
        return self._values[key]


class Remembered:
    """A tensor of a fault's own with a value a row, zero at first, that every graph shares. It is made where a graph is
    warmed up, before anything is captured."""

    def __init__(self) -> None:
        self._tensors: dict[torch.device, Tensor] = {}

    def __call__(self, like: Tensor) -> Tensor:
        """Its first rows, as many as `like` has, of the dtype that it was first asked for with."""
        if like.device not in self._tensors:
            self._tensors[like.device] = torch.zeros(MOST_ROWS, dtype=like.dtype, device=like.device)
        return self._tensors[like.device][: like.shape[0]]
