"""Attention backends file what they planned for a captured size under that size. Two variants of a size need two files:
a replay would else refresh the plan of the variant captured last, and the other run on a stale one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from vskipper.sglang.graphs.variant import Variant
from vskipper.sglang.seams.kv_write import decode_side

FILE: Final = "decode_cuda_graph_metadata"


class VariantMetadata:
    """Keeps one file a variant, and lets the backend see the one in use. Static buffers that a backend files under
    names of their own are shared."""

    def __init__(self) -> None:
        self._files: dict[Variant, dict[Any, Any]] = {}
        self._in_use = Variant.DENSE

    def use(self, backend: Any, variant: Variant) -> None:
        """Let `backend` see the file of `variant` from now on; nothing for a backend without one."""
        backend = decode_side(backend)
        seen = getattr(backend, FILE, None)
        if seen is None:
            return
        if Variant.DENSE not in self._files:
            self._files[Variant.DENSE] = seen
        if variant not in self._files:
            self._files[variant] = {key: value for key, value in seen.items() if isinstance(key, str)}
        setattr(backend, FILE, self._files[variant])
        self._in_use = variant

    @contextmanager
    def using(self, backend: Any, variant: Variant) -> Iterator[None]:
        """The file of `variant`, then the one before it again."""
        before = self._in_use
        self.use(backend, variant)
        try:
            yield
        finally:
            self.use(backend, before)
