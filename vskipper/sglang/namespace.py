"""Which requests may share prefixes: the key under which the engine's prefix cache files a request's tokens.

A key is one string of the engine's. Dense requests keep what the user gave, so that a configured server shares what a
stock one does; every other key begins with a prefix that no user's key is left with, and states its parts by length,
so that no two of them collide (clauses CACHE-1, CACHE-3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

PREFIX: Final = "vskipper:"


def digest(identity: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Of everything that decides what routed rows write: JSON values by name, and tensors by name, dtype, shape and
    bytes. 32 hexadecimal digits."""
    hashed = hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{len(name)}:{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        hashed.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def dense_key(user_key: str | None) -> str | None:
    """The key of a dense request: the user's own, marked only where it would read as one of ours."""
    return _key("dense", user_key) if user_key is not None and user_key.startswith(PREFIX) else user_key


def routed_key(user_key: str | None, routes: str) -> str:
    """The key of a request whose prefill is routed. routes: the digest of policy, settings and weights."""
    return _key(f"routed:{routes}", user_key)


def private_key(user_key: str | None, name: str) -> str:
    """A key that is no other request's. name: never used twice, without a colon."""
    return _key(f"private:{name}", user_key)


def is_private(key: str | None) -> bool:
    """Whether private_key() made it."""
    return key is not None and key.startswith(f"{PREFIX}private:")


def _key(kind: str, user_key: str | None) -> str:
    return PREFIX + kind + ("" if user_key is None else f":user:{user_key}")
