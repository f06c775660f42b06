"""64-bit mixing on the device: arithmetic modulo 2^64 in int64 tensors (docs/contract.md: random-skip)."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from vskipper.request_key import digest_key

SEED_STEP = 0x9E3779B97F4A7C15
POSITION_STEP = 0xD1B54A32D192ED03
LAYER_STEP = 0xA24BAED4963EE407


def signed(value: int) -> int:
    """The integer of -2^63 .. 2^63 - 1 that equals `value` modulo 2^64."""
    return (value + 2**63) % 2**64 - 2**63


def shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift of int64 `x`; torch's own keeps the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Tensor) -> Tensor:
    """splitmix64's finaliser of int64 `x`, element by element."""
    x = (x ^ shift_right(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shift_right(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shift_right(x, 31)


def keyed(keys: Tensor, positions: Tensor, seed: int) -> Tensor:
    """What is mixed for a row: keys and positions int64 [rows], the seed a Python integer."""
    return keys + signed(seed * SEED_STEP) + positions * signed(POSITION_STEP)


@lru_cache(maxsize=4)
def token_keys(vocab_size: int) -> Tensor:
    """The digest key of every token id below vocab_size, as 8 little-endian bytes; int64 [vocab_size] on the CPU.

    BLAKE2b has no place on the device, a table of it has.
    """
    digests = [digest_key(token.to_bytes(8, "little")) for token in range(vocab_size)]
    return torch.tensor(digests, dtype=torch.int64)
