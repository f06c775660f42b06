"""a @ weight.T over a span of rows, one row after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def bounded_gemm(
    a: Tensor,
    weight: Tensor,
    rows: Sequence[int],
    start: int,
    stop: int,
    out: Tensor,
    *,
    gather: bool,
    scatter: bool,
    scale: Tensor | None = None,
    add: bool = False,
) -> None:
    """For i < stop - start, with row = rows[start + i]: out[row if scatter else i] = weight @ a[row if gather else i].

    Sums in float32, or float64 where the tensors are, and rounds to the dtype of `out`; scale[row] (original row
    number) times that, rounded; `add` adds that to what stands there, rounded.
    """
    wide = torch.float64 if out.dtype == torch.float64 else torch.float32
    weight_wide = weight.to(wide)
    for i, row in enumerate(rows[start:stop]):
        value = (weight_wide @ a[row if gather else i].to(wide)).to(out.dtype)
        if scale is not None:
            value = value * scale[row]
        target = row if scatter else i
        out[target] = out[target] + value if add else value
