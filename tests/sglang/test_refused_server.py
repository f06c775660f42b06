"""What is refused at start, by the real engine: the exit code and the line, before a scheduler or weights exist."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.engine import absent
from vskipper.models import resolve
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.launch.command import server_command, server_environment

pytestmark = [
    pytest.mark.server,
    absent,
    pytest.mark.xdist_group("refused"),
]

CPU = ["--device", "cpu", "--attention-backend", "torch_native", "--dtype", "float32", "--skip-tokenizer-init"]
POLICY = EngineConfig(policy="static-depth", settings={"ratio": 0.5})
CASES = [
    ("--pp-size 2", "pipeline parallelism is not supported [--pp-size]: got 2, expected 1"),
    ("--tp-size 2", "tensor parallelism is not supported [--tp-size]: got 2, expected 1"),
    ("--tp-size 2 --dp-size 2 --enable-dp-attention", "data-parallel attention is not supported"),
    ("--tp-size 2 --attn-dp-size 2", "data-parallel attention is not supported [--attn-dp-size]: got 2, expected 1"),
    ("--tp-size 2 --ep-size 2", "expert parallelism is not supported [--ep-size]: got 2, expected 1"),
    ("--moe-a2a-backend deepep", "expert parallelism is not supported [--moe-a2a-backend]: got deepep"),
    ("--enable-eplb", "expert parallelism is not supported [--enable-eplb]: got on, expected not given"),
    ("--tp-size 2 --attn-cp-size 2", "context parallelism is not supported [--attn-cp-size]: got 2, expected 1"),
    ("--tp-size 2 --dcp-size 2", "context parallelism is not supported [--dcp-size]: got 2, expected 1"),
    ("--enable-prefill-cp", "context parallelism is not supported [--enable-prefill-cp]: got on"),
    ("--enable-prefill-context-parallel", "context parallelism is not supported"),
    ("--enable-lora", "LoRA is not supported [--enable-lora]: got on, expected not given"),
    ("--lora-paths a=/nowhere", "LoRA is not supported [--lora-paths]"),
    ("--speculative-algorithm NGRAM", "speculative decoding is not supported [--speculative-algorithm]: got NGRAM"),
    ("--speculative-algorithm EAGLE --speculative-draft-model-path /nowhere", "speculative decoding is not supported"),
    ("--enable-torch-compile", "torch.compile is not supported [--enable-torch-compile]: got on"),
    ("--enable-two-batch-overlap", "two-batch overlap is not supported [--enable-two-batch-overlap]: got on"),
    ("--enable-single-batch-overlap", "single-batch overlap is not supported [--enable-single-batch-overlap]: got on"),
    ("--disaggregation-mode prefill", "PD disaggregation is not supported [--disaggregation-mode]: got prefill"),
    ("--disaggregation-mode decode", "PD disaggregation is not supported [--disaggregation-mode]: got decode"),
    ("--enable-pdmux", "PD multiplexing is not supported [--enable-pdmux]: got on, expected not given"),
    ("--radix-cache-backend mine", "another radix cache is not supported [--radix-cache-backend]: got mine"),
    ("--enable-lmcache", "an external KV store is not supported [--enable-lmcache]: got on, expected not given"),
    ("--enable-flexkv", "an external KV store is not supported [--enable-flexkv]: got on, expected not given"),
    ("--enable-unified-cache-external-linker", "an external KV store is not supported"),
    ("--enable-streaming-session", "a streaming session is not supported [--enable-streaming-session]: got on"),
    ("--enable-deterministic-inference", "deterministic inference is not supported"),
    ("--is-embedding", "embedding and prefill-only serving is not supported [--is-embedding]: got on"),
    ("--dllm-algorithm LowConfidence", "a diffusion language model is not supported [--dllm-algorithm]"),
    ("--quantization fp8", "quantisation of the base weights is not supported [--quantization]: got fp8"),
    ("--torchao-config int8wo", "quantisation of the base weights is not supported [--torchao-config]: got int8wo"),
    ("--model-impl transformers", "another implementation of the model is not supported [--model-impl]"),
    (
        "SGLANG_EXPERIMENTAL_CPP_RADIX_TREE=1",
        "the C++ radix tree is not supported [SGLANG_EXPERIMENTAL_CPP_RADIX_TREE]",
    ),
    ("--kv-cache-dtype fp8_e5m2", "another dtype of K and V is not supported [--kv-cache-dtype]: got fp8_e5m2"),
    ("--quantization-param-path /nowhere", "scales of K and V is not supported [--quantization-param-path]"),
    (
        "--enable-page-major-kv-layout",
        "a pool that is laid out by pages is not supported [--enable-page-major-kv-layout]",
    ),
    ("--enable-unified-memory", "a pool that is laid out by pages is not supported [--enable-unified-memory]: got on"),
    ("--debug-cuda-graph", "a replay that runs the captured code again is not supported [--debug-cuda-graph]"),
    ("--cpu-offload-gb 1", "weight offloading is not supported [--cpu-offload-gb]: got 1, expected not given"),
]
MODELS: list[tuple[str, dict[str, object], str]] = [
    ("another", {"architectures": ["MistralForCausalLM"], "model_type": "mistral"}, "model is not supported"),
    (
        "quantised",
        {"quantization_config": {"quant_method": "fp8"}},
        "quantisation of the base weights is not supported",
    ),
    ("windowed", {"sliding_window": 64, "use_sliding_window": True}, "sliding-window attention is not supported"),
]


def model_folder(folder: Path, name: str, changed: dict[str, object]) -> Path:
    """The tiny model's config.json alone, changed: were weights read, it would fail in another way."""
    made = folder / name
    made.mkdir()
    config = json.loads((resolve("tiny-llama") / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(config | changed))
    return made


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every command line of this file, parsed and resolved in one process."""
    folder = tmp_path_factory.mktemp("models")
    model = ["--model-path", str(resolve("tiny-llama")), *CPU]
    lines = [[*model, *arguments.split()] for arguments, _ in CASES]
    lines += [["--model-path", str(model_folder(folder, name, changed)), *CPU] for name, changed, _ in MODELS]
    lines += [model, [*model, "--enable-hierarchical-cache", "--hicache-storage-backend", "file"]]
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("refused_in_process.py"))],
        input=json.dumps(lines),
        env=server_environment(POLICY, CPU),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("number", range(len(CASES)), ids=[arguments for arguments, _ in CASES])
def test_an_argument_is_refused(parsed: dict[str, Any], number: int) -> None:
    outcome = parsed["outcomes"][number]
    if outcome is None:
        pytest.skip("this SGLang has no such argument")
    assert outcome[0] == 2
    assert outcome[1].splitlines()[-1].startswith(f"vskipper: {CASES[number][1]}")


@pytest.mark.parametrize("number", range(len(MODELS)), ids=[name for name, _, _ in MODELS])
def test_a_model_is_refused(parsed: dict[str, Any], number: int) -> None:
    code, told = parsed["outcomes"][len(CASES) + number]
    assert code == 2
    assert told.splitlines()[-1].startswith(f"vskipper: {MODELS[number][2]}")


def test_most_arguments_exist_in_this_version(parsed: dict[str, Any]) -> None:
    assert sum(outcome is not None for outcome in parsed["outcomes"][: len(CASES)]) >= 25


def test_what_is_served_passes(parsed: dict[str, Any]) -> None:
    assert parsed["outcomes"][-2][0] == 0


def test_storage_without_namespaces_is_refused(parsed: dict[str, Any]) -> None:

    folders = find_spec("sglang").submodule_search_locations  # type: ignore[union-attr]
    source = Path(next(iter(folders or ())), "srt/mem_cache/utils.py").read_text(encoding="utf-8")
    code, told = parsed["outcomes"][-1]
    assert code == (0 if "def storage_namespace_seed" in source else 2)
    assert ("HiCache storage whose keys carry no namespace is not supported" in told) is (code == 2)


def test_arguments_are_named_as_they_are_typed(parsed: dict[str, Any]) -> None:
    assert parsed["misspelt"] == []


def started(arguments: list[str], config: EngineConfig, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = server_environment(config, arguments, {**os.environ, **variables})
    command = server_command("tiny-llama", arguments)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_a_real_server_ends_before_it_starts_a_scheduler() -> None:
    ran = started([*CPU, "--enable-lora"], POLICY)
    assert ran.returncode == 2
    assert "vskipper: LoRA is not supported [--enable-lora]: got on, expected not given\n" in ran.stderr
    assert "server_args=" not in ran.stderr + ran.stdout


def test_a_delta_that_does_not_fit_ends_a_real_server(tmp_path: Path) -> None:
    delta = tmp_path / "other.safetensors"
    shutil.copy(resolve("smollm2") / "flexidepth.safetensors", delta)
    ran = started(CPU, EngineConfig(policy="flexidepth", delta=str(delta)))
    assert ran.returncode == 2
    assert [str(delta) in line for line in ran.stderr.splitlines() if line.startswith("vskipper: ")] == [True]
    assert "server_args=" not in ran.stderr + ran.stdout
