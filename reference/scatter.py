"""Packed rows back to where they came from, one after another."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def scatter_rows(
    src: Tensor,
    rows: Sequence[int],
    start: int,
    stop: int,
    out: Tensor,
    scale: Tensor | None = None,
    *,
    add: bool = False,
) -> None:
    """For i < stop - start, with row = rows[start + i]: out[row] = src[i], times scale[row], added to out[row]."""
    for i, row in enumerate(rows[start:stop]):
        value = src[i] if scale is None else src[i] * scale[row]
        out[row] = out[row] + value if add else value
