"""RandomSkip in plain integers: a pure function of request (or token), position and seed (docs/contract.md)."""

from __future__ import annotations

import hashlib
import math

from reference.action import PROJECT_ONLY, RUN

MASK = (1 << 64) - 1
SEED_STEP = 0x9E3779B97F4A7C15
POSITION_STEP = 0xD1B54A32D192ED03


def digest(request_id: str) -> int:
    """The request's key: the 8-byte BLAKE2b digest of its UTF-8 bytes, read little-endian."""
    return _blake2b8(request_id.encode("utf-8"))


def token_digest(token: int) -> int:
    """The key where the token takes the request's place: the digest of its id as 8 little-endian bytes."""
    return _blake2b8(token.to_bytes(8, "little"))


def _blake2b8(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def mix(key: int, position: int, seed: int) -> int:
    """The 64-bit value that decides; splitmix64's finaliser of the three."""
    x = (key + seed * SEED_STEP + position * POSITION_STEP) & MASK
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def selected(key: int, position: int, seed: int, rate: float) -> bool:
    """Whether the row skips; so do a share `rate` of all rows."""
    return mix(key, position, seed) >> 32 < math.floor(rate * 2**32)


def action(index: int, routed_layers: int, *, is_selected: bool, depth: float) -> int:
    """At the index-th of `routed_layers`: a selected row projects in the last ceil(depth * routed_layers) of them."""
    projects = is_selected and index >= routed_layers - math.ceil(depth * routed_layers)
    return PROJECT_ONLY if projects else RUN
