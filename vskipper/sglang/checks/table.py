"""What vSkipper does not serve, a row an argument of SGLang's; an argument that a version lacks is never on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """feature: what is refused. attribute: the field of SGLang's ServerArgs. is_on: whether a value of it asks for the
    feature. expected: what to give instead. allowed: whether this SGLang makes the feature safe, asked only when on;
    None where no version does. aliases: other ways to type the argument."""

    feature: str
    attribute: str
    is_on: Callable[[Any], bool]
    expected: str
    allowed: Callable[[], bool] | None = None
    aliases: tuple[str, ...] = ()

    @property
    def argument(self) -> str:
        """The argument as it is typed."""
        return "--" + self.attribute.replace("_", "-")


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and value > 1


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _given(value: Any) -> bool:
    return bool(value) and value not in ("none", "null")


def _other_than(*values: str) -> Callable[[Any], bool]:
    return lambda value: _given(value) and value not in values


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: value in values


def _keys_carry_namespace() -> bool:
    """Whether the pages in a storage backend are keyed by namespace and tokens, not by tokens alone."""
    return hasattr(import_module("sglang.srt.mem_cache.utils"), "storage_namespace_seed")


def _sizes(feature: str, *attributes: str) -> list[Refusal]:
    return [
        Refusal(feature=feature, attribute=name, is_on=_above_one, expected="1", aliases=_SPELT.get(name, ()))
        for name in attributes
    ]


def _options(feature: str, *attributes: str) -> list[Refusal]:
    return [Refusal(feature=feature, attribute=name, is_on=_given, expected="not given") for name in attributes]


# --tp as an abbreviation, which SGLang's parser takes
_SPELT: Final = {
    "tp_size": ("--tensor-parallel-size", "--tp"),
    "pp_size": ("--pipeline-parallel-size",),
    "ep_size": ("--expert-parallel-size", "--ep"),
    "attn_dp_size": ("--attention-data-parallel-size",),
    "attn_cp_size": ("--attention-context-parallel-size",),
    "moe_dp_size": ("--moe-data-parallel-size",),
    "dcp_size": ("--decode-context-parallel-size",),
}
REFUSALS: Final = (
    *_sizes("pipeline parallelism", "pp_size"),
    *_options("data-parallel attention", "enable_dp_attention"),
    *_sizes("data-parallel attention", "attn_dp_size"),
    *_sizes("expert parallelism", "ep_size", "moe_dp_size", "dwdp_size"),
    *_options("expert parallelism", "moe_a2a_backend", "enable_eplb", "elastic_ep_backend"),
    Refusal(
        feature="expert parallelism",
        attribute="init_expert_location",
        is_on=_other_than("trivial"),
        expected="not given",
    ),
    *_sizes("context parallelism", "attn_cp_size", "dcp_size"),
    *_options(
        "context parallelism",
        "enable_prefill_cp",
        "enable_prefill_context_parallel",
        "enable_nsa_prefill_context_parallel",
        "enable_dsa_prefill_context_parallel",
        "enable_kv_cache_sharding",
    ),
    *_options("sequence parallelism", "enable_layernorm_sp", "enable_attn_tp_input_scattered"),
    *_options("LoRA", "enable_lora", "lora_paths", "uno_lora_path"),
    *_options("speculative decoding", "speculative_algorithm", "decoupled_spec_role"),
    *_options("torch.compile", "enable_torch_compile"),
    *[
        Refusal(feature="torch.compile", attribute=name, is_on=_one_of("inductor"), expected="eager")
        for name in ("piecewise_cuda_graph_compiler", "cuda_graph_tc_compiler")
    ],
    *_options("two-batch overlap", "enable_two_batch_overlap"),
    *_options("single-batch overlap", "enable_single_batch_overlap"),
    *_options("PD disaggregation", "disaggregation_mode", "enable_pd_role_switch"),
    *_options("encoder disaggregation", "encoder_only", "language_only"),
    *_options("PD multiplexing", "enable_pdmux"),
    Refusal(
        feature="HiCache storage whose keys carry no namespace",
        attribute="hicache_storage_backend",
        is_on=_given,
        expected="not given",
        allowed=_keys_carry_namespace,
    ),
    *_options("another radix cache", "radix_cache_backend", "enable_hisparse"),
    *_options("an external KV store", "enable_lmcache", "enable_flexkv", "enable_unified_cache_external_linker"),
    *_options("a streaming session", "enable_streaming_session", "enable_session_radix_cache"),
    *_options("deterministic inference", "enable_deterministic_inference", "rl_on_policy_target"),
    *_options("embedding and prefill-only serving", "is_embedding", "prefill_only_disable_kv_cache"),
    *_options("a diffusion language model", "dllm_algorithm"),
    *_options(
        "quantisation of the base weights",
        "torchao_config",
        "modelopt_quant",
        "quantize_and_serve",
        "rl_quant_profile",
    ),
    Refusal(
        feature="quantisation of the base weights",
        attribute="quantization",
        is_on=_other_than("unquant"),
        expected="not given",
    ),
    Refusal(
        feature="quantisation of the base weights",
        attribute="load_format",
        is_on=_one_of("gguf", "bitsandbytes", "flash_rl", "expert_pack"),
        expected="auto",
    ),
    Refusal(
        feature="another implementation of the model",
        attribute="model_impl",
        is_on=_other_than("auto", "sglang"),
        expected="auto or sglang",
    ),
    *_options("a kernel in place of the model's forward", "enable_amd_monokernel", "enable_nvidia_megakernel"),
    Refusal(
        feature="another dtype of K and V",
        attribute="kv_cache_dtype",
        is_on=_other_than("auto", "bf16", "bfloat16", "fp8_e4m3"),
        expected="auto, bfloat16 or fp8_e4m3",
    ),
    *_options("scales of K and V", "quantization_param_path"),
    # no [slots, heads, head size] a layer; the first implies the second
    *_options("a pool that is laid out by pages", "enable_unified_memory", "enable_page_major_kv_layout"),
    *_options("a replay that runs the captured code again", "debug_cuda_graph"),
    # the engine fetches a layer's weights around the layer's own forward, which a routed pass does not call
    *[
        Refusal(feature="weight offloading", attribute=name, is_on=_positive, expected="not given")
        for name in ("cpu_offload_gb", "offload_group_size")
    ],
    # a policy's tensors are in no module of the model, and are neither kept nor loaded again
    *_options("memory that is let go of and taken again", "enable_memory_saver"),
    # those on a layer or an MLP are not called in a routed pass
    *_options("hooks on the model's modules", "forward_hooks"),
    # after those that come with several ranks, so that each is named for itself
    *_sizes("tensor parallelism", "tp_size"),
)

# switches without an argument
REFUSED_VARIABLES: Final = {
    "SGLANG_EXPERIMENTAL_CPP_RADIX_TREE": "the C++ radix tree",
    # prepares attention by a batch's size, whichever of its two graphs is replayed
    "SGLANG_ENABLE_METADATA_GLUE_GRAPH": "a graph of attention metadata",
}

ARCHITECTURES: Final = tuple(f"{prefix}{base}ForCausalLM" for prefix in ("", "DD") for base in ("Llama", "Qwen3"))
QUANTISATION_KEYS: Final = ("quantization_config", "compression_config")
