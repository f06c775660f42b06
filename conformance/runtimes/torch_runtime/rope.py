"""Rotary position embedding on whole batches: default, linear and llama3 scaling, rotate-half layout."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reference.config import ModelConfig


def inverse_frequencies(config: ModelConfig) -> Tensor:
    """float64 [head_dim / 2]."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    frequencies = config.rope_theta**-exponent
    scaling = dict(config.rope_scaling or {})
    if scaling.get("rope_type") == "linear":
        return frequencies / float(scaling["factor"])
    if scaling.get("rope_type") == "llama3":
        return _llama3(frequencies, scaling)
    return frequencies


def _llama3(frequencies: Tensor, scaling: dict[str, float]) -> Tensor:
    """Slow frequencies divided by the factor, fast ones kept, a linear blend between."""
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    keep = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / scaling["factor"])


def rotate(values: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """values [n, heads, head dim] turned by positions int64 [n]; angles in float64, rounded to the dtype of values."""
    angles = positions[:, None].to(torch.float64) * frequencies
    cos = torch.cat([angles.cos()] * 2, -1).to(values.dtype)[:, None]
    sin = torch.cat([angles.sin()] * 2, -1).to(values.dtype)[:, None]
    first, second = values.chunk(2, -1)
    return values * cos + torch.cat([-second, first], -1) * sin
