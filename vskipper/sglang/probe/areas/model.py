"""The model classes that vSkipper derives from, and the modules of theirs that its own layer loop runs."""

from __future__ import annotations

from typing import Final

from vskipper.sglang.probe.conditions import Condition, has, inherits, lacks, mentions, says, takes
from vskipper.sglang.probe.seam import SeamSpec, needed, shape

LLAMA: Final = "srt/models/llama.py"
QWEN3: Final = "srt/models/qwen3.py"
QWEN2: Final = "srt/models/qwen2.py"
NORM: Final = "srt/layers/layernorm.py"
LINEAR: Final = "srt/layers/linear.py"
ALL_REDUCE: Final = "srt/distributed/communication_op.py"
ROTARY: Final = ("srt/layers/rotary_embedding/base.py", "srt/layers/rotary_embedding.py")

_CAUSAL: Final = ((LLAMA, "LlamaForCausalLM"), (QWEN3, "Qwen3ForCausalLM"))
_FORWARD: Final = (
    "self",
    "input_ids",
    "positions",
    "forward_batch",
    "input_embeds",
    "get_embedding",
    "pp_proxy_tensors",
)
_DECODER: Final = ("embed_tokens", "layers", "norm")
_LAYER: Final = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")
_ATTENTION: Final = ("qkv_proj", "o_proj", "rotary_emb", "attn", "q_size", "kv_size", "head_dim")
_MLP: Final = ("gate_up_proj", "act_fn", "down_proj")
_SPLIT: Final = "qkv.split([self.q_size, self.kv_size, self.kv_size], dim=-1)"
_LAYER_FORWARD: Final = ("self", "positions", "hidden_states", "forward_batch")


def _prepares(path: str, name: str) -> tuple[Condition, Condition]:
    """q, k and v of every row by one method of the attention `name`, rotated."""
    method = f"{name}.forward_prepare_native"
    return says(path, method, _SPLIT), takes(path, method, "self", "positions", "hidden_states")


def _layer_forward(model: str, path: str, layer: str) -> SeamSpec:
    return needed(
        f"{model}-layer-forward",
        "runs the layer's modules in a loop of its own, with a residual of its own",
        shape(
            "boundaries",
            takes(path, f"{layer}.forward", *_LAYER_FORWARD, accepts=("capture_output",)),
            says(path, f"{layer}.forward", "self.attn_boundary.", "self.ffn_boundary.", "self.self_attn(", "self.mlp("),
        ),
        shape(
            "residual-argument",
            takes(path, f"{layer}.forward", *_LAYER_FORWARD, "residual"),
            says(path, f"{layer}.forward", "self.self_attn(", "self.mlp(", "return (hidden_states, residual)"),
        ),
    )


SEAMS: Final = (
    needed(
        "model-construction",
        "derives from the engine's Llama and Qwen3",
        shape(
            "config-quant-prefix",
            *[takes(path, f"{name}.__init__", "self", "config", "quant_config", "prefix") for path, name in _CAUSAL],
        ),
    ),
    needed(
        "model-forward",
        "chooses between the engine's forward and its own",
        shape("ids-positions-batch", *[takes(path, f"{name}.forward", *_FORWARD) for path, name in _CAUSAL]),
    ),
    needed(
        "model-weights",
        "takes its own tensors out of what is loaded",
        shape("pairs", *[takes(path, f"{name}.load_weights", "self", "weights") for path, name in _CAUSAL]),
    ),
    needed(
        "model-parts",
        "runs embedding, layers, final norm and head",
        shape(
            "decoder-and-head",
            *[
                has(path, f"{name}.__init__", "model", "lm_head", "logits_processor", "config")
                for path, name in _CAUSAL
            ],
            has(LLAMA, "LlamaModel.__init__", *_DECODER),
            has(QWEN2, "Qwen2Model.__init__", *_DECODER),
            inherits(QWEN3, "Qwen3Model", "Qwen2Model"),
        ),
    ),
    needed(
        "layer-parts",
        "runs a layer's norms, attention and MLP one by one",
        shape(
            "two-norms",
            has(LLAMA, "LlamaDecoderLayer.__init__", *_LAYER),
            has(QWEN3, "Qwen3DecoderLayer.__init__", *_LAYER),
        ),
    ),
    _layer_forward("llama", LLAMA, "LlamaDecoderLayer"),
    _layer_forward("qwen3", QWEN3, "Qwen3DecoderLayer"),
    needed(
        "attention-parts",
        "computes q, k and v of every row, and o_proj of some",
        shape(
            "packed-qkv",
            has(LLAMA, "LlamaAttention.__init__", *_ATTENTION),
            has(QWEN3, "Qwen3Attention.__init__", *_ATTENTION, "q_norm", "k_norm"),
            *_prepares(LLAMA, "LlamaAttention"),
            *_prepares(QWEN3, "Qwen3Attention"),
        ),
        shape("llama-in-forward", says(LLAMA, "LlamaAttention.forward", _SPLIT), served=False),
    ),
    needed(
        "mlp-parts",
        "runs the MLP of some rows, also by its weights",
        shape(
            "packed-gate-up",
            has(LLAMA, "LlamaMLP.__init__", *_MLP),
            has(QWEN2, "Qwen2MLP.__init__", *_MLP),
            mentions(QWEN3, "Qwen2MLP as Qwen3MLP"),
            takes(LLAMA, "LlamaMLP.forward", "self", "x"),
            takes(QWEN2, "Qwen2MLP.forward", "self", "x"),
        ),
    ),
    needed(
        "norm-call",
        "norms a stream, and the sum of two",
        shape(
            "x-residual",
            *[
                takes(NORM, f"RMSNorm.forward_{device}", "self", "x", "residual")
                for device in ("cuda", "native", "cpu")
            ],
        ),
    ),
    needed(
        "projection-call",
        "takes the first of what a projection returns",
        shape(
            "output-and-bias",
            takes(LINEAR, "ColumnParallelLinear.forward", "self", "input_"),
            takes(LINEAR, "RowParallelLinear.forward", "self", "input_"),
            says(LINEAR, "ColumnParallelLinear.forward", "return (output, output_bias)"),
            says(LINEAR, "RowParallelLinear.forward", "return (output, output_bias)"),
            inherits(LINEAR, "QKVParallelLinear", "ColumnParallelLinear"),
        ),
    ),
    needed(
        "row-reduction",
        "sums over ranks where a projection leaves it to the layer",
        shape(
            "by-attribute",
            has(LINEAR, "RowParallelLinear.__init__", "reduce_results"),
            takes(ALL_REDUCE, "tensor_model_parallel_all_reduce", "input_"),
            mentions("srt/distributed/__init__.py", "from sglang.srt.distributed.communication_op import *"),
        ),
    ),
    needed(
        "rotary-call",
        "rotates q and k of every row",
        shape(
            "package",
            *[
                takes(ROTARY[0], f"RotaryEmbedding.forward_{device}", "self", "positions", "query", "key")
                for device in ("cuda", "native")
            ],
        ),
        shape(
            "module",
            *[
                takes(ROTARY[1], f"RotaryEmbedding.forward_{device}", "self", "positions", "query", "key")
                for device in ("cuda", "native")
            ],
            lacks(ROTARY[0]),
        ),
    ),
)
