"""Names of the runtimes under test."""

from __future__ import annotations

from typing import Final

ENGINE: Final = "sglang"
# the runtime `sglang` with --device cuda
CUDA: Final = "sglang-cuda"
SERVER: Final = "server"
RUNTIMES: Final = ("reference", "torch", "triton", ENGINE, CUDA, SERVER)
# that run SGLang, in the suite's own processes or in a server's
ENGINES: Final = (ENGINE, CUDA, SERVER)
# SGLang's attention backend on a GPU where none is named
CUDA_BACKEND: Final = "triton"


def device_of(runtime: str) -> str:
    """Where the runtime under test runs, cpu or cuda."""
    return "cuda" if runtime == CUDA else "cpu"
