"""The prefix cache: what its keys carry, and how a request stays out of it."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import either, has, lacks, mentions, says, takes
from vskipper.sglang.probe.seam import needed, recorded, shape

COMMON: Final = "srt/mem_cache/common.py"
RADIX: Final = "srt/mem_cache/radix_cache.py"
BASE: Final = "srt/mem_cache/base_prefix_cache.py"
REGISTRY: Final = "srt/mem_cache/registry.py"
UTILS: Final = "srt/mem_cache/utils.py"
BATCH: Final = "srt/managers/schedule_batch.py"
ENVIRON: Final = "srt/environ.py"
SCHEDULER: Final = "srt/managers/scheduler.py"

_FLAG: Final = has(BATCH, "Req.__init__", "skip_radix_cache_insert")
_KEY: Final = takes(RADIX, "RadixKey.__init__", "self", "token_ids", "extra_key")
_INSERT_CHUNK: Final = takes(COMMON, "maybe_cache_unfinished_req", "req", "tree_cache")
_UNLESS: Final = ("if req.skip_radix_cache_insert:", "if getattr(req, 'skip_radix_cache_insert', False):")
_AND_NOT: Final = (
    "is_insert and (not req.skip_radix_cache_insert)",
    "is_insert and (not getattr(req, 'skip_radix_cache_insert', False))",
)
_UNIFIED: Final = ("create_unified_radix_cache", "_create_unified_radix_cache")
_CPP: Final = "SGLANG_EXPERIMENTAL_CPP_RADIX_TREE"

SEAMS: Final = (
    needed(
        "prefix-key",
        "keeps prefixes of different plans apart by the request's extra key",
        shape("by-cache", _KEY, says(COMMON, "_req_radix_key", "extra_key=req.extra_key")),
        shape("by-request", _KEY, says(BATCH, "Req.init_next_round_input", "extra_key=self.extra_key")),
    ),
    needed(
        "insertion-veto",
        "keeps what a request computes out of the cache",
        shape(
            "checkpoint",
            takes(COMMON, "checkpoint_kv_cache", "req", "tree_cache"),
            says(COMMON, "checkpoint_kv_cache", "if not req.skip_radix_cache_insert:"),
            says(COMMON, "release_kv_cache", "not req.skip_radix_cache_insert"),
            _FLAG,
        ),
        shape(
            "insertion",
            _INSERT_CHUNK,
            either(*[says(COMMON, "maybe_cache_unfinished_req", each) for each in _UNLESS]),
            either(*[says(COMMON, "release_kv_cache", each) for each in _AND_NOT]),
            _FLAG,
        ),
        shape(
            "release-only",
            takes(COMMON, "release_kv_cache", "req", "tree_cache", "is_insert"),
            lacks(COMMON, name="maybe_cache_unfinished_req"),
            lacks(BATCH, mention="skip_radix_cache_insert"),
            served=False,
        ),
    ),
    needed(
        "chunk-resumption",
        "lets a request that stays out of the cache go on after a chunk",
        shape("by-engine", says(COMMON, "checkpoint_kv_cache", "req.prefix_len = req.extend_end")),
        shape(
            "indices-of-record",
            _INSERT_CHUNK,
            takes(BATCH, "Req.get_fill_ids", "self"),
            has(BATCH, "Req.__init__", "prefix_indices", "kv"),
            mentions(BATCH, "    req_pool_idx: Optional[int] = None"),
        ),
        shape(
            "indices-of-filled",
            _INSERT_CHUNK,
            takes(BATCH, "Req.get_fill_ids", "self"),
            has(BATCH, "Req.__init__", "prefix_indices", "req_pool_idx"),
        ),
        shape(
            "indices-of-list", _INSERT_CHUNK, has(BATCH, "Req.__init__", "prefix_indices", "req_pool_idx", "fill_ids")
        ),
        shape(
            "by-insertion",
            lacks(COMMON, name="maybe_cache_unfinished_req"),
            lacks(COMMON, name="checkpoint_kv_cache"),
            served=False,
        ),
    ),
    recorded(
        "cache-insertion",
        "has the suite watch what is inserted",
        shape("checkpoint", has(BASE, "BasePrefixCache", "checkpoint"), lacks(BASE, mention="cache_unfinished_req")),
        shape(
            "unfinished-finish",
            has(BASE, "BasePrefixCache", "cache_unfinished_req"),
            lacks(BASE, mention="def cache_finished_req"),
        ),
        shape("unfinished-finished", has(BASE, "BasePrefixCache", "cache_unfinished_req", "cache_finished_req")),
    ),
    recorded(
        "cache-tree",
        "meets this tree by default",
        shape(
            "unified",
            either(*[mentions(REGISTRY, f"return {name}(ctx") for name in _UNIFIED]),
            lacks(REGISTRY, mention="return RadixCache(params)"),
        ),
        shape("registry-radix", mentions(REGISTRY, "return RadixCache(params)")),
        shape("scheduler-radix", mentions(SCHEDULER, "self.tree_cache = RadixCache(params)"), lacks(REGISTRY)),
    ),
    recorded(
        "cache-release",
        "sees whether a finished request is inserted by this keyword",
        shape("checkpoint", takes(COMMON, "release_kv_cache", "req", "tree_cache", accepts=("checkpoint",))),
        shape("is-insert", takes(COMMON, "release_kv_cache", "req", "tree_cache", "is_insert")),
    ),
    recorded(
        "storage-keys",
        "refuses a storage backend whose keys carry no namespace",
        shape("namespaced", takes(UTILS, "storage_namespace_seed", "extra_key", "cache_salt")),
        shape("tokens-only", lacks(UTILS, mention="storage_namespace_seed")),
    ),
    recorded(
        "cpp-radix-tree",
        "refuses the tree that ignores the extra key",
        shape("switch", mentions(ENVIRON, _CPP)),
        shape("none", lacks(ENVIRON, mention=_CPP)),
    ),
)
