"""Where a pass finds its KV pool, and how K and V get into it."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import has, lacks, mentions, says, takes
from vskipper.sglang.probe.seam import needed, recorded, shape

POOL: Final = "srt/mem_cache/memory_pool.py"
CONTEXT: Final = "srt/model_executor/forward_context.py"
BATCH: Final = "srt/model_executor/forward_batch_info.py"
TRANSLATOR: Final = "srt/mem_cache/kv_index_translator.py"

_WRITE: Final = "MHATokenToKVPool.set_kv_buffer"
_SLOTS: Final = ("self", "layer", "loc", "cache_k", "cache_v", "k_scale", "v_scale")

SEAMS: Final = (
    needed(
        "kv-pool-lookup",
        "finds the pool and the backend of the pass that runs",
        shape("forward-context", takes(CONTEXT, "get_token_to_kv_pool"), takes(CONTEXT, "get_attn_backend")),
        shape("batch-field", has(BATCH, "ForwardBatch", "token_to_kv_pool", "attn_backend"), lacks(CONTEXT)),
    ),
    needed(
        "kv-write",
        "writes K and V of every row",
        shape("location", takes(POOL, _WRITE, "self", "layer", "loc_info", "cache_k", "cache_v", "k_scale", "v_scale")),
        shape("slots", takes(POOL, _WRITE, *_SLOTS)),
    ),
    needed(
        "kv-write-location",
        "says where K and V go",
        shape(
            "physical",
            takes(POOL, "KVWriteLoc.for_batch", "cls", "forward_batch"),
            mentions(POOL, "requires_physical_write_loc"),
        ),
        shape(
            "slots-or-location",
            says(POOL, "unwrap_write_loc", "isinstance(loc_info, KVWriteLoc)"),
            lacks(POOL, name="KVWriteLoc.for_batch"),
            lacks(POOL, mention="requires_physical_write_loc"),
        ),
        shape("slots", takes(POOL, _WRITE, *_SLOTS), lacks(POOL, mention="KVWriteLoc")),
    ),
    recorded(
        "kv-layout",
        "has the suite read the pool's bytes",
        shape(
            "layer-buffers",
            takes(POOL, "MHATokenToKVPool.get_kv_buffer", "self", "layer_id"),
            mentions(POOL, "self.k_buffer"),
            mentions(POOL, "self.v_buffer"),
        ),
    ),
    recorded(
        "kv-slot-numbers",
        "must know whether the engine's tables hold the pool's own slots",
        shape("translated", mentions(TRANSLATOR, "class KVIndexTranslator")),
        shape("physical", lacks(TRANSLATOR)),
    ),
)
