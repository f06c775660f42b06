"""A SwiGLU over one cohort: gather, gate and up, silu, down, scatter; three launches, no host copy of a count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vskipper.cohort import Span
from vskipper.kernels.check import check_size, require
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.silu_mul import silu_mul
from vskipper.policy import SwiGLU


@dataclass(frozen=True, slots=True, kw_only=True)
class SwiGLUScratch:
    """Packed intermediate rows, allocated once and shared by every SwiGLU that is no wider.

    gate_up: [capacity, 2 width]. hidden: [capacity, width]. Contents undefined between calls.
    """

    gate_up: Tensor
    hidden: Tensor

    @classmethod
    def allocate(cls, capacity: int, width: int, dtype: torch.dtype, device: torch.device | str) -> SwiGLUScratch:
        return cls(
            gate_up=torch.empty(capacity, 2 * width, dtype=dtype, device=device),
            hidden=torch.empty(capacity, width, dtype=dtype, device=device),
        )

    def holds(self, rows: int, width: int) -> bool:
        """Whether it is large enough for as many rows of a SwiGLU that wide."""
        return self.hidden.shape[0] >= rows and self.hidden.shape[1] >= width


def swiglu(
    y: Tensor,
    weights: SwiGLU,
    span: Span,
    scale: Tensor | None,
    out: Tensor,
    scratch: SwiGLUScratch,
    *,
    add: bool = False,
) -> None:
    """out[row] = w_out(silu(w_in[:m] y[row]) * w_in[m:] y[row]) for the rows of the span; no other row is touched.

    y, out: [rows, hidden] by original row. scale and add as in bounded_gemm. scratch: of at least the span's capacity
    and width m. Raises InputError.
    """
    width = weights.w_out.shape[1]
    check_size("swiglu: weights.w_in", weights.w_in, 0, 2 * width)
    require(
        scratch.hidden.shape[1] >= width,
        "scratch too narrow",
        where="swiglu: scratch",
        got=scratch.hidden.shape[1],
        expected=f"{width} columns or more",
    )
    gate_up, hidden = scratch.gate_up[:, : 2 * width], scratch.hidden[:, :width]
    bounded_gemm(y, weights.w_in, span, gate_up, gather=True, scatter=False)
    silu_mul(gate_up, span, hidden)
    bounded_gemm(hidden, weights.w_out, span, out, gather=False, scatter=True, scale=scale, add=add)
