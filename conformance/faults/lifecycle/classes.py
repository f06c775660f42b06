"""The engine's classes that faults patch, by name; imported when one is first asked for, as the runtime does it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from conformance.runtimes.sglang.process import prepare, quiet_engine

MODULES: Final = {
    "TokenToKVPoolAllocator": "sglang.srt.mem_cache.allocator",
    "PagedTokenToKVPoolAllocator": "sglang.srt.mem_cache.allocator",
    "ReqToTokenPool": "sglang.srt.mem_cache.memory_pool",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    prepare()
    with quiet_engine():
        return getattr(import_module(MODULES[name]), name)
