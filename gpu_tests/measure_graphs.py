"""What a second variant of every decode graph costs at a real model's shape, and what is left of it where memory is
short: `python -m gpu_tests.measure_graphs OUT.json --backend fa3`. Weights are random; each way is a start of
SGLang's own engine."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import torch
import typer

from gpu_tests.shapes import MODELS
from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.plugin import MODEL_PACKAGE
from vskipper.sglang.plugin import MODELS as MODEL_CLASSES

MODEL: Final = "llama-3-8b"
LAYERS: Final = 32
ROUTED: Final = EngineConfig(policy="random-skip", settings={"r": 0.5, "d": 0.5})
DENSE: Final = EngineConfig(policy="random-skip", settings={"r": 0.5, "d": 0.5}, mode="dense")
# of the GPU's memory, what weights and KV take; the rest is for graphs
PLENTY: Final = 0.8
SHORT: Final = (0.985, 0.9925, 0.9945)


def ways(short: Sequence[float]) -> Iterator[tuple[str, EngineConfig | None, float]]:
    """Each start: its name, the plugin's configuration, and the share of memory."""
    yield "no plugin", None, PLENTY
    yield "dense", DENSE, PLENTY
    for fraction in (PLENTY, *short):
        yield f"routed, {fraction}", ROUTED, fraction


def write_config(folder: Path) -> None:
    """config.json of the model."""
    hidden, intermediate, heads, kv_heads, head = MODELS[MODEL]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))


def start(folder: str, config: EngineConfig | None, fraction: float, backend: str, answer: Any) -> None:
    """In a process of its own: start, ask, tell."""
    if config is not None:
        os.environ.update(config.environment() | {MODEL_PACKAGE: MODEL_CLASSES})
    before = torch.cuda.mem_get_info()[0]
    begin = time.perf_counter()
    engine = import_module("sglang").Engine(
        model_path=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        mem_fraction_static=fraction,
        attention_backend=backend,
        cuda_graph_bs_prefill=[256],
        log_level="warning",
    )
    seconds = time.perf_counter() - begin
    (state, *_) = engine.get_server_info()["internal_states"]
    told = {
        "seconds": seconds,
        "memory_taken": before - torch.cuda.mem_get_info()[0],
        "weights_and_kv": state.get("memory_usage"),
        "graphs": (state.get("vskipper") or {}).get("graphs"),
    }
    engine.shutdown()
    answer.put(told)


def main(
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="The file for what was measured.")],
    backend: Annotated[str, typer.Option(help="SGLang's attention backend.")] = "fa3",
    short: Annotated[
        list[float] | None,
        typer.Option("--fraction", help="mem_fraction_static of another routed start; else three of them."),
    ] = None,
) -> None:
    """Measure every way, one after the other. Exit code 2 without a GPU."""
    try:
        check_gpu("measure_graphs")
    except InputError as error:
        print(f"vskipper: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    measured: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "backend": backend}
    processes = get_context("spawn")
    with TemporaryDirectory() as name:
        write_config(Path(name))
        for way, config, fraction in ways(short or SHORT):
            answer: Any = processes.Queue()
            child = processes.Process(target=start, args=(name, config, fraction, backend, answer))
            child.start()
            child.join()
            if child.exitcode != 0:
                raise RuntimeError(f"{way}: the engine's process ended with {child.exitcode}")
            measured[way] = {"mem_fraction_static": fraction, **answer.get()}
            print(way, json.dumps(measured[way]), flush=True)
    out.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
