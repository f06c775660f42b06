"""The attention module and the head, as a routed pass calls them."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import has, says, takes
from vskipper.sglang.probe.seam import needed, shape

RADIX: Final = "srt/layers/radix_attention.py"
LOGITS: Final = "srt/layers/logits_processor.py"

SEAMS: Final = (
    needed(
        "attention-call",
        "attends after its own write, and without another one",
        shape(
            "save-kv-cache",
            takes(RADIX, "RadixAttention.forward", "self", "q", "k", "v", "forward_batch", "save_kv_cache"),
            says(RADIX, "RadixAttention.forward", "save_kv_cache,"),
        ),
    ),
    needed(
        "attention-scales",
        "hands the layer's KV scales to the pool",
        shape("on-module", has(RADIX, "RadixAttention.__init__", "k_scale", "v_scale", "layer_id")),
    ),
    needed(
        "logits-call",
        "hands the final norm's output to the engine's head",
        shape(
            "ids-hidden-head-batch",
            takes(
                LOGITS, "LogitsProcessor.forward", "self", "input_ids", "hidden_states", "lm_head", "logits_metadata"
            ),
        ),
    ),
)
