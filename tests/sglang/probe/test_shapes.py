"""Every word of every seam, on the smallest tree that has it."""

from __future__ import annotations

import pytest

from tests.sglang.probe.trees import NEW, OLD, SPECS, Files, edited, seam
from vskipper.sglang.probe import UNKNOWN

# seam: its word in the older tree and in the newer one
BOTH = {
    "plugin-group": ("entry-points", "entry-points"),
    "model-package": ("over-engine", "instead-of-engine"),
    "arguments-resolution": ("on-construction", "resolve-once"),
    "arguments-read": ("one-class", "by-namespace"),
    "arguments-refused": ("one-class", "by-namespace"),
    "current-arguments": ("module", "context"),
    "environment-switches": ("envs", "envs"),
    "engine-in-process": ("bench-one-batch", "benchmark"),
    "rpc": ("collective", "collective"),
    "model-construction": ("config-quant-prefix", "config-quant-prefix"),
    "model-forward": ("ids-positions-batch", "ids-positions-batch"),
    "model-weights": ("pairs", "pairs"),
    "model-parts": ("decoder-and-head", "decoder-and-head"),
    "layer-parts": ("two-norms", "two-norms"),
    "llama-layer-forward": ("residual-argument", "boundaries"),
    "qwen3-layer-forward": ("residual-argument", "boundaries"),
    "attention-parts": ("packed-qkv", "packed-qkv"),
    "mlp-parts": ("packed-gate-up", "packed-gate-up"),
    "norm-call": ("x-residual", "x-residual"),
    "projection-call": ("output-and-bias", "output-and-bias"),
    "row-reduction": ("by-attribute", "by-attribute"),
    "rotary-call": ("module", "package"),
    "kv-pool-lookup": ("batch-field", "forward-context"),
    "kv-write": ("slots", "location"),
    "kv-write-location": ("slots", "physical"),
    "kv-layout": ("layer-buffers", "layer-buffers"),
    "kv-slot-numbers": ("physical", "translated"),
    "attention-call": ("save-kv-cache", "save-kv-cache"),
    "attention-scales": ("on-module", "on-module"),
    "logits-call": ("ids-hidden-head-batch", "ids-hidden-head-batch"),
    "request-construction": ("key", "key-and-salt"),
    "request-retraction": ("reset-for-retract", "reset-for-retract"),
    "request-abort": ("to-finish", "to-finish"),
    "batch-requests": ("reqs", "reqs"),
    "batch-run": ("run-batch", "run-batch"),
    "batch-results": ("process-batch-result", "process-batch-result"),
    "scheduler-order": ("worker-first", "worker-first"),
    "pass-rows": ("lengths-on-host", "lengths-on-host"),
    "pass-construction": ("batch-runner", "batch-runner-options"),
    "pass-call": ("forward-batch", "forward-batch"),
    "pass-attributes": ("kept", "lost-in-eager-runner"),
    "mixed-batches": ("as-mixed", "as-extend"),
    "request-queue": ("add-request", "add-request"),
    "prefix-key": ("by-request", "by-cache"),
    "insertion-veto": ("insertion", "checkpoint"),
    "chunk-resumption": ("indices-of-list", "by-engine"),
    "cache-insertion": ("unfinished-finished", "checkpoint"),
    "cache-tree": ("scheduler-radix", "unified"),
    "cache-release": ("is-insert", "checkpoint"),
    "storage-keys": ("tokens-only", "namespaced"),
    "cpp-radix-tree": ("switch", "none"),
    "request-information": ("slice-replaced", "slice-or-request"),
    "internal-state": ("scheduler-answers", "scheduler-answers"),
    "metrics-folder": ("multiprocess", "multiprocess"),
    "metrics-collector": ("metrics", "observability"),
    "decode-runner": ("batch-sizes", "shapes"),
    "graph-key": ("batch-size", "label-attention-variant"),
    "prefill-veto": ("piecewise", "prefill-runner"),
    "triton-metadata": ("kv-lists", "kv-lists"),
    "fa3-metadata": ("lengths", "lengths-scheduled"),
    "flashinfer-metadata": ("wrappers", "wrappers-made-apart"),
    "attention-metadata": ("capture-replay", "out-in-graph"),
    "decode-runner-class": ("name", "method"),
    "overlap-fence": ("none", "read-ends"),
    "model-prepare": ("none", "eager-and-all"),
    "capture-hooks": ("none", "head-and-tail"),
}

BATCH = "srt/managers/schedule_batch.py"
COMMON = "srt/mem_cache/common.py"
LLAMA = "srt/models/llama.py"
KEY = "srt/model_executor/runner/shape_key.py"
MIXIN = "srt/managers/scheduler_output_processor_mixin.py"
STREAMER = "srt/managers/scheduler_components/output_streamer.py"
RUNNER = "srt/model_executor/model_runner.py"
EAGER = "srt/model_executor/runner/eager_runner.py"
SLICE = "v[send_token_offset:len(output_ids_)]"
FILLED = edited(
    edited(OLD, BATCH, "self.fill_ids = ", ""),
    BATCH,
    "    def finished",
    "    def get_fill_ids(self): ...\n\n    def finished",
)
RECORD = "class Record:\n    req_pool_idx: Optional[int] = None\n"
NO_INSERTION = "def release_kv_cache(req, tree_cache, is_insert=True): ...\n"

# seam, word, tree: the words that neither has
BETWEEN: list[tuple[str, str, Files]] = [
    ("plugin-group", "environment-only", edited(OLD, "srt/plugins/__init__.py", "", None)),
    (
        "arguments-resolution",
        "on-construction",
        edited(OLD, "srt/server_args.py", "self._handle_everything()", "self._run_resolution_pipeline()"),
    ),
    (
        "kv-write-location",
        "slots-or-location",
        edited(
            OLD,
            "srt/mem_cache/memory_pool.py",
            "class MHA",
            "class KVWriteLoc: ...\n\n"
            "def unwrap_write_loc(loc_info):\n    return isinstance(loc_info, KVWriteLoc)\n\nclass MHA",
        ),
    ),
    (
        "pass-attributes",
        "lost-in-model-runner",
        edited(edited(NEW, EAGER, "registry.", "no."), RUNNER, "getattr", "registry.extract_buffer()\n        getattr"),
    ),
    (
        "insertion-veto",
        "release-only",
        edited(edited(OLD, COMMON, None, NO_INSERTION), BATCH, "skip_radix_cache", "no"),
    ),
    ("chunk-resumption", "indices-of-filled", FILLED),
    (
        "chunk-resumption",
        "indices-of-record",
        edited(edited(FILLED, BATCH, "self.req_pool_idx", "self.kv"), BATCH, "class Req:", RECORD + "\nclass Req:"),
    ),
    ("chunk-resumption", "by-insertion", edited(OLD, COMMON, None, NO_INSERTION)),
    (
        "cache-insertion",
        "unfinished-finish",
        edited(OLD, "srt/mem_cache/base_prefix_cache.py", "cache_finished_req", "finish"),
    ),
    (
        "cache-tree",
        "registry-radix",
        edited(NEW, "srt/mem_cache/registry.py", "create_unified_radix_cache(ctx)", "RadixCache(params)"),
    ),
    (
        "request-information",
        "slice-accumulated",
        edited(NEW, STREAMER, "if not self.is_request_level_customized_info_key(key)", "if True"),
    ),
    (
        "request-information",
        "slice-accumulated",
        edited(
            edited(
                NEW,
                STREAMER,
                None,
                f"class _GenerationStreamAccumulator:\n    def accept(self, req):\n        info[k].append({SLICE})\n",
            ),
            "srt/managers/tokenizer_manager.py",
            None,
            "class TokenizerManager:\n    def _handle_batch_output(self):\n"
            "        state.customized_info_accumulated[k].extend(v[i])\n",
        ),
    ),
    ("request-information", "slice-to-end", edited(OLD, MIXIN, SLICE, "v[send_token_offset:]")),
    ("request-information", "whole-list", edited(OLD, MIXIN, SLICE, "v")),
    (
        "request-information",
        "none",
        edited(edited(OLD, MIXIN, "customized_info", "info"), BATCH, "self.customized_info = ", ""),
    ),
    (
        "attention-parts",
        "llama-in-forward",
        edited(
            OLD, LLAMA, "def forward_prepare_native(self, positions, hidden_states)", "def forward(self, positions)"
        ),
    ),
    (
        "decode-runner",
        "batch-sizes-early",
        edited(OLD, "srt/model_executor/cuda_graph_runner.py", "self.attn_backend = ", ""),
    ),
    ("graph-key", "label", edited(NEW, KEY, "    attention_variant: str = None\n", "")),
    ("graph-key", "label-dsa-variant", edited(NEW, KEY, "attention_variant", "dsa_variant")),
    (
        "graph-key",
        "label-in-text",
        edited(
            OLD,
            "srt/model_executor/cuda_graph_runner.py",
            "class Cuda",
            "def _default_make_graph_key(bs, stream_idx=None, variant_label=None): ...\n\nclass Cuda",
        ),
    ),
    (
        "prefill-veto",
        "piecewise-breakable",
        edited(
            OLD,
            "srt/model_executor/breakable_cuda_graph_runner.py",
            None,
            "class BreakableCudaGraphRunner:\n    def can_run(self, forward_batch): ...\n",
        ),
    ),
    (
        "overlap-fence",
        "read-done-event",
        edited(NEW, "srt/managers/scheduler.py", "shared_read", "war_fastpath_read"),
    ),
    (
        "overlap-fence",
        "whole-forward",
        edited(NEW, "srt/managers/scheduler.py", "runner.shared_read_done_event", "self._war_barrier_enabled"),
    ),
    ("model-prepare", "eager-runner", edited(NEW, RUNNER, "prepare_for_forward", "other")),
    (
        "model-prepare",
        "model-runner",
        edited(edited(NEW, EAGER, "prepare_", "no_"), RUNNER, "prepare_for_forward", "prepare_forward_batch"),
    ),
    ("capture-hooks", "tail", edited(NEW, RUNNER, "self.capture_head_hooks = ", "")),
]


@pytest.mark.parametrize(
    ("name", "files", "word"),
    [
        *[(name, OLD, words[0]) for name, words in BOTH.items()],
        *[(name, NEW, words[1]) for name, words in BOTH.items()],
        *[(name, files, word) for name, word, files in BETWEEN],
    ],
)
def test_a_known_shape_has_its_word(name: str, files: Files, word: str) -> None:
    found = seam(name, files)
    assert found.word == word, (found.where, found.detail, found.expected)
    assert found.where.startswith("sglang/") and found.detail


def test_every_word_is_tried() -> None:
    tried = {(name, word) for name, words in BOTH.items() for word in words}
    tried |= {(name, word) for name, word, _ in BETWEEN}
    known = {(name, shape.word) for name, (_, spec) in SPECS.items() for shape in spec.shapes}
    assert tried == known
    assert UNKNOWN not in {word for _, word in known}


def test_where_is_the_line_of_the_definition() -> None:
    path = "srt/models/llama.py"
    line = NEW[path][: NEW[path].index("class LlamaForCausalLM")].count("\n") + 2
    assert seam("model-construction", NEW).where == f"sglang/{path}:{line}"
