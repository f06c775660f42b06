"""silu(gate) * up, one row after another."""

from __future__ import annotations

import torch
from torch import Tensor


def silu_mul(gate_up: Tensor, count: int, out: Tensor) -> None:
    """out[i] = silu(gate_up[i, :m]) * gate_up[i, m:] for i < count.

    silu in float32, or float64 where the tensors are, rounded to the dtype of `out` before it meets up.
    """
    width = out.shape[1]
    wide = torch.float64 if out.dtype == torch.float64 else torch.float32
    for i in range(count):
        gate = gate_up[i, :width].to(wide)
        silu = gate * torch.sigmoid(gate)
        out[i] = silu.to(out.dtype) * gate_up[i, width:]
