"""What is refused at start, on arguments that stand for SGLang's: every row of the table, its edges, and its words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from vskipper.errors import InputError
from vskipper.sglang.checks.refusals import refuse_arguments, refuse_model, refuse_unsupported
from vskipper.sglang.checks.table import REFUSALS, REFUSED_VARIABLES
from vskipper.sglang.launch.typed import refuse_typed
from vskipper.sglang.seams import server_args

LLAMA = {"architectures": ["LlamaForCausalLM"], "sliding_window": None}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "use_sliding_window": False,
    "sliding_window": 4096,
    "layer_types": ["full_attention"] * 2,
    "quantization_config": None,
}
# (attribute, a value that is refused, what the message says of it, a value that is served)
ROWS: list[tuple[str, object, str, object]] = [
    ("pp_size", 2, "pipeline parallelism is not supported [--pp-size]: got 2, expected 1", 1),
    (
        "kv_cache_dtype",
        "fp4_e2m1",
        "another dtype of K and V is not supported [--kv-cache-dtype]: got fp4_e2m1, expected auto, bfloat16 or",
        "fp8_e4m3",
    ),
    ("quantization_param_path", "scales.json", "scales of K and V is not supported [--quantization-param-path]", None),
    (
        "enable_unified_memory",
        True,
        "a pool that is laid out by pages is not supported [--enable-unified-memory]",
        False,
    ),
    (
        "enable_page_major_kv_layout",
        True,
        "a pool that is laid out by pages is not supported [--enable-page-major-kv",
        False,
    ),
    (
        "debug_cuda_graph",
        True,
        "a replay that runs the captured code again is not supported [--debug-cuda-graph]",
        False,
    ),
    (
        "enable_memory_saver",
        True,
        "memory that is let go of and taken again is not supported [--enable-memory-saver]: got on",
        False,
    ),
    ("forward_hooks", [{"name": "mine"}], "hooks on the model's modules is not supported [--forward-hooks]", None),
    ("tp_size", 2, "tensor parallelism is not supported [--tp-size]: got 2, expected 1", 1),
    ("enable_dp_attention", True, "data-parallel attention is not supported [--enable-dp-attention]: got on", False),
    ("attn_dp_size", 2, "data-parallel attention is not supported [--attn-dp-size]: got 2, expected 1", 1),
    ("ep_size", 2, "expert parallelism is not supported [--ep-size]: got 2", 1),
    ("moe_dp_size", 4, "expert parallelism is not supported [--moe-dp-size]: got 4", 1),
    ("dwdp_size", 2, "expert parallelism is not supported [--dwdp-size]: got 2", 1),
    ("moe_a2a_backend", "deepep", "expert parallelism is not supported [--moe-a2a-backend]: got deepep", "none"),
    ("enable_eplb", True, "expert parallelism is not supported [--enable-eplb]: got on", False),
    ("elastic_ep_backend", "nixl", "expert parallelism is not supported [--elastic-ep-backend]: got nixl", None),
    ("init_expert_location", "a.pt", "expert parallelism is not supported [--init-expert-location]", "trivial"),
    ("attn_cp_size", 2, "context parallelism is not supported [--attn-cp-size]: got 2", 1),
    ("dcp_size", 2, "context parallelism is not supported [--dcp-size]: got 2", 1),
    ("enable_prefill_cp", True, "context parallelism is not supported [--enable-prefill-cp]", False),
    ("enable_prefill_context_parallel", True, "context parallelism is not supported", False),
    ("enable_nsa_prefill_context_parallel", True, "context parallelism is not supported", False),
    ("enable_dsa_prefill_context_parallel", True, "context parallelism is not supported", False),
    ("enable_kv_cache_sharding", True, "context parallelism is not supported", False),
    ("enable_layernorm_sp", True, "sequence parallelism is not supported [--enable-layernorm-sp]", False),
    ("enable_attn_tp_input_scattered", True, "sequence parallelism is not supported", False),
    ("enable_lora", True, "LoRA is not supported [--enable-lora]: got on, expected not given", None),
    ("lora_paths", ["a=b"], "LoRA is not supported [--lora-paths]: got ['a=b']", []),
    ("uno_lora_path", "a", "LoRA is not supported [--uno-lora-path]: got a", None),
    ("speculative_algorithm", "EAGLE", "speculative decoding is not supported [--speculative-algorithm]", None),
    ("decoupled_spec_role", "drafter", "speculative decoding is not supported [--decoupled-spec-role]", "null"),
    ("enable_torch_compile", True, "torch.compile is not supported [--enable-torch-compile]: got on", False),
    ("piecewise_cuda_graph_compiler", "inductor", "torch.compile is not supported", "eager"),
    ("cuda_graph_tc_compiler", "inductor", "torch.compile is not supported [--cuda-graph-tc-compiler]", None),
    ("enable_two_batch_overlap", True, "two-batch overlap is not supported [--enable-two-batch-overlap]", False),
    ("enable_single_batch_overlap", True, "single-batch overlap is not supported", False),
    ("disaggregation_mode", "prefill", "PD disaggregation is not supported [--disaggregation-mode]", "null"),
    ("enable_pd_role_switch", True, "PD disaggregation is not supported [--enable-pd-role-switch]", False),
    ("encoder_only", True, "encoder disaggregation is not supported [--encoder-only]", False),
    ("language_only", True, "encoder disaggregation is not supported [--language-only]", False),
    ("enable_pdmux", True, "PD multiplexing is not supported [--enable-pdmux]: got on", False),
    ("hicache_storage_backend", "file", "HiCache storage whose keys carry no namespace is not supported", None),
    ("radix_cache_backend", "mine", "another radix cache is not supported [--radix-cache-backend]: got mine", None),
    ("enable_hisparse", True, "another radix cache is not supported [--enable-hisparse]", False),
    ("enable_lmcache", True, "an external KV store is not supported [--enable-lmcache]", False),
    ("enable_flexkv", True, "an external KV store is not supported [--enable-flexkv]", False),
    ("enable_unified_cache_external_linker", True, "an external KV store is not supported", False),
    ("enable_streaming_session", True, "a streaming session is not supported [--enable-streaming-session]", False),
    ("enable_session_radix_cache", True, "a streaming session is not supported", False),
    ("enable_deterministic_inference", True, "deterministic inference is not supported", False),
    ("rl_on_policy_target", "fsdp", "deterministic inference is not supported [--rl-on-policy-target]", None),
    ("is_embedding", True, "embedding and prefill-only serving is not supported [--is-embedding]", False),
    ("prefill_only_disable_kv_cache", True, "embedding and prefill-only serving is not supported", False),
    ("dllm_algorithm", "LowConfidence", "a diffusion language model is not supported [--dllm-algorithm]", None),
    ("torchao_config", "int4wo", "quantisation of the base weights is not supported [--torchao-config]", ""),
    ("modelopt_quant", "fp8", "quantisation of the base weights is not supported [--modelopt-quant]", None),
    ("quantize_and_serve", True, "quantisation of the base weights is not supported", False),
    ("rl_quant_profile", "a", "quantisation of the base weights is not supported [--rl-quant-profile]", None),
    ("quantization", "fp8", "quantisation of the base weights is not supported [--quantization]: got fp8", "unquant"),
    ("load_format", "gguf", "quantisation of the base weights is not supported [--load-format]: got gguf", "dummy"),
    ("model_impl", "transformers", "another implementation of the model is not supported", "sglang"),
    ("enable_amd_monokernel", True, "a kernel in place of the model's forward is not supported", False),
    ("enable_nvidia_megakernel", True, "a kernel in place of the model's forward is not supported", False),
    ("cpu_offload_gb", 4, "weight offloading is not supported [--cpu-offload-gb]: got 4", 0),
    ("offload_group_size", 1, "weight offloading is not supported [--offload-group-size]: got 1", -1),
]
SERVED = SimpleNamespace(**{attribute: served for attribute, _, _, served in ROWS})


class Switch:
    """As SGLang reads a variable of the environment."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def get(self) -> bool:
        return self.value


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules of SGLang that are asked, with nothing in them."""
    stand_in = SimpleNamespace(environ=ModuleType("environ"), keys=ModuleType("utils"), args=ModuleType("server_args"))
    vars(stand_in.environ)["envs"] = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "sglang.srt.environ", stand_in.environ)
    monkeypatch.setitem(sys.modules, "sglang.srt.mem_cache.utils", stand_in.keys)
    monkeypatch.setitem(sys.modules, "sglang.srt.server_args", stand_in.args)
    monkeypatch.setitem(sys.modules, "sglang.srt.arg_groups.overrides", None)
    yield stand_in


def given(**changed: object) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(SERVED), **changed})


def test_every_row_is_tested() -> None:
    assert sorted(row.attribute for row in REFUSALS) == sorted(attribute for attribute, *_ in ROWS)


@pytest.mark.parametrize(("attribute", "value", "told", "served"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_refuses_its_feature_and_nothing_less(attribute: str, value: object, told: str, served: object) -> None:
    with pytest.raises(InputError) as refused:
        refuse_unsupported(given(**{attribute: value}), LLAMA)
    assert str(refused.value).startswith(told)
    assert refused.value.where == "--" + attribute.replace("_", "-")
    refuse_unsupported(given(**{attribute: served}), LLAMA)


def typed(attribute: str, value: object) -> list[str]:
    """As it stands on a command line; an argument that is off is not given."""
    words = [] if value is True else [json.dumps(value) if isinstance(value, list) else str(value)]
    return [] if value in (None, False, "", []) else ["--" + attribute.replace("_", "-"), *words]


@pytest.mark.parametrize(("attribute", "value", "told", "served"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_refuses_what_is_typed_before_an_engine_starts(
    attribute: str, value: object, told: str, served: object
) -> None:
    around = ["--port", "3", *typed(attribute, value), "--host", "::"]
    refuse_typed(["--port", "3", *typed(attribute, served), "--host", "::"])
    if attribute == "hicache_storage_backend":
        # whether it is safe is the engine's to tell
        return refuse_typed(around)
    with pytest.raises(InputError) as refused:
        refuse_typed(around)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ("--tp 2", "--tp-size"),
        ("--tp=2", "--tp-size"),
        ("--tensor-parallel-size 2", "--tp-size"),
        ("--tp 1 --tp 2", "--tp-size"),
        ("--ep 2", "--ep-size"),
        ("--pipeline-parallel-size 2", "--pp-size"),
        ("--lora-paths a=b c=d", "--lora-paths"),
        ("--tp 2 --speculative-algorithm EAGLE", "--speculative-algorithm"),
    ],
)
def test_an_argument_may_be_spelt_otherwise(arguments: str, where: str) -> None:
    with pytest.raises(InputError) as refused:
        refuse_typed(arguments.split())
    assert refused.value.where == where


@pytest.mark.parametrize(
    "arguments", ["--tp 2 --tp 1", "--model x --load dummy", "--forward-hooks []", "--tp-size " + "[" * 9000, "--tp x"]
)
def test_what_asks_for_nothing_or_is_no_value_is_left_to_the_engine(arguments: str) -> None:
    refuse_typed(arguments.split())


@pytest.mark.parametrize("config", [LLAMA, QWEN3], ids=["llama", "qwen3"])
def test_what_a_dense_model_is_served_with_passes(config: dict[str, Any]) -> None:
    refuse_unsupported(SERVED, config)


def test_a_version_without_an_argument_cannot_ask_for_it() -> None:
    refuse_unsupported(SimpleNamespace(), QWEN3)


def test_storage_is_served_where_its_keys_carry_a_namespace(engine: SimpleNamespace) -> None:
    vars(engine.keys)["storage_namespace_seed"] = len
    refuse_arguments(given(hicache_storage_backend="file"))


@pytest.mark.parametrize("variable", REFUSED_VARIABLES)
def test_a_switch_in_the_environment_is_refused_where_the_engine_knows_it(
    engine: SimpleNamespace, variable: str
) -> None:
    setattr(engine.environ.envs, variable, Switch(False))
    refuse_arguments(SERVED)
    setattr(engine.environ.envs, variable, Switch(True))
    with pytest.raises(InputError, match=rf"is not supported \[{variable}\]: got on, expected not set"):
        refuse_arguments(SERVED)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"architectures": ["MixtralForCausalLM"]},
            r"model is not supported \[config.json: architectures\]: got .*Mixt",
        ),
        ({"architectures": ["MistralForCausalLM", "LlamaForCausalLM"]}, "model is not supported"),
        ({"architectures": []}, "model is not supported"),
        ({"architectures": None}, "expected LlamaForCausalLM or Qwen3ForCausalLM"),
        ({"architectures": "LlamaForCausalLM"}, "model is not supported"),
        (
            {"quantization_config": {"quant_method": "awq"}},
            r"base weights is not supported \[config.json: quantiz.*awq",
        ),
        (
            {"compression_config": {"format": "int"}},
            r"base weights is not supported \[config.json: compression_config\]",
        ),
        (
            {"sliding_window": 4096},
            r"sliding-window attention is not supported \[config.json: sliding_window\]: got 4096",
        ),
        ({"use_sliding_window": True, "sliding_window": 4096}, "sliding-window attention is not supported"),
        (
            {"layer_types": ["full_attention", "sliding_attention"]},
            r"a hybrid model is not supported \[config.json: layer",
        ),
    ],
)
def test_other_models_are_refused(changed: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        refuse_model(LLAMA | changed)


def test_a_quantised_checkpoint_is_not_blamed_on_an_argument() -> None:
    with pytest.raises(InputError, match=r"config\.json: quantization_config"):
        refuse_unsupported(given(quantization="awq"), LLAMA | {"quantization_config": {"quant_method": "awq"}})


def arguments_class(*, step: bool) -> type[Any]:
    """ServerArgs of an engine that resolves in a step of its own, or when it constructs."""

    class ServerArgs:
        def __init__(self, **values: object) -> None:
            self.__dict__.update(vars(SERVED) | values)
            self.__post_init__()

        def __post_init__(self) -> None:
            if not step:
                self.resolved = True

    def resolve_once(self: Any) -> None:
        self.resolved = self._resolution_finished = True

    if step:
        vars_of = {"resolve_once": resolve_once}
        return type("ServerArgs", (ServerArgs,), vars_of)
    return ServerArgs


def resolve(args: Any) -> None:
    if hasattr(args, "resolve_once"):
        args.resolve_once()


@pytest.mark.parametrize("step", [False, True])
def test_the_check_sees_resolved_arguments_once(engine: SimpleNamespace, step: bool) -> None:
    vars(engine.args)["ServerArgs"] = kind = arguments_class(step=step)
    seen: list[bool] = []
    server_args.install(lambda args: pytest.fail("replaced by the second call"))
    server_args.install(lambda args: seen.append(args.resolved))
    args = kind()
    resolve(args)
    resolve(args)
    assert seen == [True]


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_a_refusal_is_one_line_and_exit_code_2(
    engine: SimpleNamespace, capsys: pytest.CaptureFixture[str], step: bool, early: bool
) -> None:
    vars(engine.args)["ServerArgs"] = kind = arguments_class(step=step)

    def refuse(args: Any) -> None:
        if not early:
            assert args.resolved
            raise InputError("a thing", where="here\nand there", got=1, expected=2)
        pytest.fail("the arguments alone are refused before the engine resolves them")

    server_args.install(refuse)
    with pytest.raises(SystemExit) as ended:
        resolve(kind(pp_size=2) if early else kind())
    told = (
        "pipeline parallelism is not supported [--pp-size]: got 2, expected 1"
        if early
        else ("a thing [here and there]: got 1, expected 2")
    )
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", f"vskipper: {told}\n")
