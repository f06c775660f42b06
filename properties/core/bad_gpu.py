"""GPUs, and engines on them, that cannot decode routed, on facts of a machine that are pretended (IN-1)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from properties.core.refusal import Start
from vskipper.kernels.decode_attention import LARGEST_HEAD
from vskipper.sglang.checks import gpu

MODEL = {"hidden_size": 4096, "num_attention_heads": 32, "torch_dtype": "bfloat16"}
ARGUMENTS = {"attention_backend": "triton", "disable_cuda_graph": False, "kv_cache_dtype": "auto", "base_gpu_id": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """capability: of its only GPU, None where there is none. lacks: a package that is not installed."""

    capability: tuple[int, int] | None = (9, 0)
    lacks: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)

    def start(self) -> None:
        """What is checked before an engine starts there. Its version is another matter."""
        facts = {
            "is_available": lambda: self.capability is not None,
            "device_count": lambda: int(self.capability is not None),
            "get_device_capability": lambda index=None: self.capability,
        }
        with ExitStack() as stack:
            for name, fact in facts.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, fact))
            stack.enter_context(mock.patch.object(gpu, "find_spec", lambda name: None if name == self.lacks else name))
            stack.enter_context(mock.patch.object(gpu, "probe_engine", lambda graphs: None))
            gpu.check_engine(SimpleNamespace(**ARGUMENTS | self.arguments), MODEL | self.model)


def _on(*capabilities: tuple[int, int] | None, **arguments: Any) -> Start:
    """One of several GPUs, with these arguments."""
    return lambda seed: Machine(capability=capabilities[seed % len(capabilities)], arguments=arguments).start()


def _with(argument: str, *values: Any, **others: Any) -> Start:
    """One of several values of an argument, on a GPU that serves."""
    return lambda seed: Machine(arguments={argument: values[seed % len(values)]} | others).start()


def _without(*backends: str) -> Start:
    def start(seed: int) -> None:
        name = backends[seed % len(backends)]
        Machine(lacks=gpu.BACKENDS[name], arguments={"attention_backend": name}).start()

    return start


GPUS: dict[str, Start] = {
    "no_gpu": _on(None),
    "no_such_gpu": lambda seed: Machine(arguments={"base_gpu_id": 1 + seed % 8}).start(),
    "older_gpu": _on((7, 5), (7, 0), (6, 1)),
    "gpu_without_fa3": _on((10, 0), (10, 3), (12, 0), attention_backend="fa3"),
    "gpu_without_float8": _on((8, 0), (8, 6), kv_cache_dtype="fp8_e4m3"),
    "unknown_backend": _with("attention_backend", "trtllm_mha", "torch_native", "fa4"),
    "backend_not_installed": _without("flashinfer", "fa3"),
    "backend_without_float32": _with("attention_backend", "flashinfer", "fa3", dtype="float32"),
    "kv_of_another_dtype": _with("dtype", "float16", "half", "float32", kv_cache_dtype="bfloat16"),
    "decode_captured_otherwise": lambda seed: Machine(
        arguments={"cuda_graph_config": SimpleNamespace(decode=SimpleNamespace(backend="breakable"))}
    ).start(),
    "head_too_large": lambda seed: Machine(model={"head_dim": LARGEST_HEAD + 1 + seed}).start(),
}
