"""A request's key: what policies see of its id, on the device."""

from __future__ import annotations

import hashlib


def digest_key(data: bytes) -> int:
    """The 8-byte BLAKE2b digest of `data`, read little-endian as a signed 64-bit integer."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def request_key(request_id: str) -> int:
    """RowBatch.request_keys of the rows of request `request_id`: the digest key of its UTF-8 bytes."""
    return digest_key(request_id.encode("utf-8"))
