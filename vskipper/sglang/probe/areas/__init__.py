"""The seams, an area a file, in the order a request meets them."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.areas import attention, batches, cache, graphs, kv_pool, loading, model, results
from vskipper.sglang.probe.seam import SeamSpec

AREAS: Final[dict[str, tuple[SeamSpec, ...]]] = {
    "loading": loading.SEAMS,
    "model": model.SEAMS,
    "KV pool": kv_pool.SEAMS,
    "attention": attention.SEAMS,
    "requests and batches": batches.SEAMS,
    "cache": cache.SEAMS,
    "results": results.SEAMS,
    "graphs": graphs.SEAMS,
}
