"""Rotary position embedding in the rotate-half form: rope types default, linear and llama3."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from reference.config import ModelConfig
from reference.norm import wide


def inverse_frequencies(config: ModelConfig, dtype: torch.dtype) -> Tensor:
    """Radians a position for each pair of dimensions, [head_dim / 2], in float64 for dtype float64, else float32."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=wide(dtype)) / config.head_dim
    frequencies = torch.pow(config.rope_theta, -exponent)
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    if scaling["rope_type"] == "linear":
        return torch.div(frequencies, scaling["factor"])
    return _llama3(frequencies, scaling)


def _llama3(frequencies: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Long waves are slowed down by `factor`, short ones kept, those between interpolated."""
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return torch.lerp(frequencies / scaling["factor"], frequencies, kept)


def rotate(x: Tensor, position: int, frequencies: Tensor) -> Tensor:
    """Turn each head of x [heads, head_dim] by the angles of `position`; cosine and sine are cast to x's dtype."""
    angle = position * frequencies
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
