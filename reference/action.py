"""What a row does at a routed layer: bit 0 says that attention runs, bit 1 that the MLP runs."""

from __future__ import annotations

PROJECT_ONLY = 0b00
SKIP_MLP = 0b01
SKIP_ATTN = 0b10
RUN = 0b11
ACTIONS = (PROJECT_ONLY, SKIP_MLP, SKIP_ATTN, RUN)


def attention_runs(action: int) -> bool:
    return bool(action & 0b01)


def mlp_runs(action: int) -> bool:
    return bool(action & 0b10)
