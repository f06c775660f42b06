"""Kernels and the functions they call, on a GPU or in Triton's interpreter.

Which of the two is decided once, by TRITON_INTERPRET when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
from triton import knobs

_INTERPRETED = bool(knobs.runtime.interpret)


def interpreted() -> bool:
    """True where the kernels of this process run on the CPU, in numpy; they then take CPU tensors only."""
    return _INTERPRETED


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as its wrapper launches it."""

    jitted: Any

    def launch(self, grid: tuple[int, ...], *given: Any, **named: Any) -> None:
        # infinities and NaN are values, as on a GPU, not warnings of numpy
        with np.errstate(all="ignore") if _INTERPRETED else nullcontext():
            self.jitted[grid](*given, **named)


def kernel(**options: Any) -> Callable[[Callable[..., None]], Kernel]:
    """Decorates a kernel; options are those of triton.jit."""
    return lambda function: Kernel(triton.jit(**options)(function))


def device_function(function: Callable[..., Any]) -> Any:
    """Decorates a function that kernels call. In the interpreter it stays a Python function."""
    # the interpreter patches the whole language anew, 2 ms, at each call of a jitted function
    return function if _INTERPRETED else triton.jit(function)
