"""A small context and batches of rows for the policies' tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vskipper.policy import PolicyContext, RowBatch
from vskipper.request_key import request_key

LAYERS = (2, 3, 4, 7)


def context(routed_layers: tuple[int, ...] = LAYERS, **values: Any) -> PolicyContext:
    shape: dict[str, Any] = {
        "layers": 8,
        "hidden_size": 64,
        "intermediate_size": 128,
        "rms_norm_eps": 1e-5,
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "vocab_size": 128,
    }
    return PolicyContext(routed_layers=routed_layers, **(shape | values))


def router_tensors(layers: Sequence[int] = LAYERS, seed: int = 0, r: int = 4, m: int = 8) -> dict[str, torch.Tensor]:
    """FlexiDepth's tensors for `context()`, so large that w spreads over (0, 1)."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "router.router_enc": (r, 64),
        "router.router_norm": (r,),
        "router.router_dec": (64, r),
        "router.router_head": (1, 64),
        "router_proj.gate_proj": (m, 64),
        "router_proj.down_proj": (m, 64),
        "router_proj.up_proj": (64, m),
    }
    return {
        f"model.layers.{layer}.{name}.weight": torch.randn(shape, generator=generator) * 0.3
        for layer in layers
        for name, shape in shapes.items()
    }


def batch(requests: Sequence[str], positions: Sequence[int], tokens: Sequence[int] | None = None) -> RowBatch:
    rows = len(requests)
    return RowBatch(
        request_keys=torch.tensor([request_key(request) for request in requests], dtype=torch.int64),
        positions=torch.tensor(list(positions), dtype=torch.int64),
        token_ids=torch.tensor(list(tokens) if tokens is not None else [0] * rows, dtype=torch.int64),
        phases=torch.zeros(rows, dtype=torch.int8),
        valid=torch.ones(rows, dtype=torch.bool),
    )


def stream(rows: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> torch.Tensor:
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(seed)).to(dtype)
