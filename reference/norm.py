"""RMSNorm: variance in at least float32, normalise, cast to the input's dtype, multiply by the weight."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums and exponentials are computed in: float64 for float64, else float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., n] over its last dimension, weight [n]; the result has x's shape and dtype."""
    y = x.to(wide(x.dtype))
    variance = y.pow(2).mean(-1, keepdim=True)
    return (y * torch.rsqrt(variance + eps)).to(x.dtype) * weight
