"""Captured graphs and the attention backends' metadata: needed where graphs are captured, or only recorded."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import has, lacks, mentions, takes
from vskipper.sglang.probe.seam import needed_for_graphs, recorded, shape

EXECUTOR: Final = "srt/model_executor/"
RUNNER: Final = EXECUTOR + "cuda_graph_runner.py"
DECODE: Final = EXECUTOR + "runner/decode_cuda_graph_runner.py"
PREFILL: Final = EXECUTOR + "runner/prefill_cuda_graph_runner.py"
PIECEWISE: Final = EXECUTOR + "piecewise_cuda_graph_runner.py"
BREAKABLE: Final = EXECUTOR + "breakable_cuda_graph_runner.py"
KEY: Final = EXECUTOR + "runner/shape_key.py"
MODEL: Final = EXECUTOR + "model_runner.py"
EAGER: Final = EXECUTOR + "runner/eager_runner.py"
SCHEDULER: Final = "srt/managers/scheduler.py"
BASE: Final = "srt/layers/attention/base_attn_backend.py"
TRITON: Final = "srt/layers/attention/triton_backend.py"
FA3: Final = "srt/layers/attention/flashattention_backend.py"
FLASHINFER: Final = "srt/layers/attention/flashinfer_backend.py"

_RUNNER: Final = "DecodeCudaGraphRunner"
_VETO: Final = ("self", "forward_batch")
_LENGTHS: Final = ("cache_seqlens_int32", "page_table", "cu_seqlens_q", "cu_seqlens_k", "max_seq_len_q")
_FLASHINFER: Final = (
    has(FLASHINFER, "DecodeMetadata", "decode_wrappers"),
    has(FLASHINFER, "FlashInferAttnBackend.__init__", "kv_indptr", "decode_cuda_graph_metadata"),
    mentions(FLASHINFER, "self.decode_cuda_graph_metadata[bs]", "self.cuda_graph_kv_indices"),
)

SEAMS: Final = (
    needed_for_graphs(
        "decode-runner",
        "captures a routed variant beside the dense one, and replays either",
        shape(
            "shapes",
            takes(DECODE, f"{_RUNNER}.capture_one_shape", "self", "size", "forward"),
            takes(DECODE, f"{_RUNNER}.execute", "self", "forward_batch"),
            has(DECODE, f"{_RUNNER}.__init__", "attn_backend", "capture_bs", "max_bs"),
            has(DECODE, _RUNNER, "_make_graph_key"),
        ),
        shape(
            "batch-sizes",
            takes(RUNNER, "CudaGraphRunner.capture_one_batch_size", "self", "bs", "forward"),
            takes(RUNNER, "CudaGraphRunner.replay", "self", "forward_batch"),
            has(RUNNER, "CudaGraphRunner.__init__", "attn_backend", "capture_bs", "max_bs", "graphs", "output_buffers"),
            mentions(RUNNER, "self.graphs[graph_key].replay()", "self.output_buffers[graph_key]"),
        ),
        shape(
            "batch-sizes-early",
            takes(RUNNER, "CudaGraphRunner.capture_one_batch_size", "self", "bs", "forward"),
            takes(RUNNER, "CudaGraphRunner.replay", "self", "forward_batch"),
            served=False,
        ),
    ),
    needed_for_graphs(
        "graph-key",
        "tells the variants apart by the key",
        shape("label-attention-variant", has(KEY, "ShapeKey", "variant_label", "attention_variant")),
        shape("label-dsa-variant", has(KEY, "ShapeKey", "variant_label", "dsa_variant")),
        shape("label", has(KEY, "ShapeKey", "variant_label")),
        shape(
            "label-in-text",
            takes(RUNNER, "_default_make_graph_key", "bs", "stream_idx", "variant_label"),
            served=False,
        ),
        shape(
            "batch-size",
            has(RUNNER, "CudaGraphRunner.__init__", "graphs"),
            lacks(RUNNER, mention="variant_label"),
        ),
    ),
    needed_for_graphs(
        "prefill-veto",
        "keeps routed prefills out of graphs",
        shape("prefill-runner", takes(PREFILL, "PrefillCudaGraphRunner.can_run_graph", *_VETO)),
        shape(
            "piecewise-breakable",
            takes(PIECEWISE, "PiecewiseCudaGraphRunner.can_run", *_VETO),
            takes(BREAKABLE, "BreakableCudaGraphRunner.can_run", *_VETO),
        ),
        shape("piecewise", takes(PIECEWISE, "PiecewiseCudaGraphRunner.can_run", *_VETO), lacks(BREAKABLE)),
    ),
    needed_for_graphs(
        "triton-metadata",
        "reads a decode step's KV lists",
        shape("kv-lists", has(TRITON, "ForwardMetadata", "kv_indptr", "kv_indices", "num_kv_splits")),
    ),
    needed_for_graphs(
        "fa3-metadata",
        "masks the lengths of rows that skip attention",
        shape("lengths-scheduled", has(FA3, "FlashAttentionMetadata", *_LENGTHS, "scheduler_metadata")),
        shape("lengths", has(FA3, "FlashAttentionMetadata", *_LENGTHS), served=False),
    ),
    needed_for_graphs(
        "flashinfer-metadata",
        "reads a decode step's KV lists, and keeps a plan for each variant",
        shape(
            "wrappers-made-apart",
            *_FLASHINFER,
            has(FLASHINFER, "FlashInferAttnBackend", "_create_decode_wrappers"),
        ),
        shape("wrappers", *_FLASHINFER),
    ),
    recorded(
        "attention-metadata",
        "could build metadata for a variant",
        shape(
            "out-in-graph",
            has(BASE, "AttentionBackend", "init_forward_metadata_out_graph", "init_forward_metadata_in_graph"),
        ),
        shape(
            "capture-replay",
            has(
                BASE,
                "AttentionBackend",
                "init_forward_metadata_capture_cuda_graph",
                "init_forward_metadata_replay_cuda_graph",
            ),
        ),
    ),
    recorded(
        "decode-runner-class",
        "could choose the decode runner's class",
        shape("method", takes(MODEL, "ModelRunner._decode_cuda_graph_runner_cls", "self")),
        shape(
            "name", lacks(MODEL, name="ModelRunner._decode_cuda_graph_runner_cls"), has(MODEL, "ModelRunner", "forward")
        ),
    ),
    recorded(
        "overlap-fence",
        "may read the scheduler's tables until this",
        shape("read-ends", mentions(SCHEDULER, "shared_read_done_event")),
        shape("read-done-event", mentions(SCHEDULER, "war_fastpath_read_done_event")),
        shape("whole-forward", mentions(SCHEDULER, "_war_barrier_enabled")),
        shape("none", lacks(SCHEDULER, mention="read_done"), mentions(SCHEDULER, "class Scheduler(")),
    ),
    recorded(
        "model-prepare",
        "could prepare a pass in the model",
        shape("eager-and-all", mentions(EAGER, '"prepare_forward_batch"'), mentions(MODEL, '"prepare_for_forward"')),
        shape("eager-runner", mentions(EAGER, '"prepare_forward_batch"')),
        shape("model-runner", mentions(MODEL, '"prepare_forward_batch"')),
        shape("none", lacks(MODEL, mention="prepare_forward_batch"), lacks(EAGER)),
    ),
    recorded(
        "capture-hooks",
        "could add work to a capture",
        shape("head-and-tail", mentions(MODEL, "capture_head_hooks", "capture_tail_hooks")),
        shape("tail", mentions(MODEL, "capture_tail_hooks")),
        shape("none", lacks(MODEL, mention="capture_tail_hooks")),
    ),
)
