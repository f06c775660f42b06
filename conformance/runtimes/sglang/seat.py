"""Where an engine of this process runs: the device, its attention backend, and the decode graphs that it captures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from conformance.runtime_names import CUDA_BACKEND
from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu
from vskipper.sglang.checks import gpu

CPU_BACKEND: Final = "torch_native"
# as --kv-cache-dtype has them
KV_NAMES: Final = {None: "auto", "float8_e4m3fn": "fp8_e4m3"}
# rows of the decode graphs that the suite drives
GRAPH_SIZES: Final = (1, 2, 4, 8)
# of an engine that captures anew for every case: one that batches fit, and one that most are padded to
LIFE_SIZES: Final = (1, 4)
# rows of its prefill graphs, of which an engine may take one for no fewer than half as many
PREFILL_SIZES: Final = (16, 64)
# of the memory that is free at the start. A pool's size is asked for in tokens; what other engines of a shared GPU
# take in the meantime must not look as if this one's weights had taken it
MEMORY: Final = 0.5
# slots of a pool
TOKENS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """page_size: of the engine's own pool. graphs: batch sizes that are captured; none: everything runs eagerly.
    prefill_graphs: whether prefill passes are captured too, as the engine does by default.
    kv_dtype: of K and V in the pool, where it is not the model's; on a GPU its attention kernels are chosen by it.
    dtype: the model's, as torch names it. tokens: slots of the engine's own pool."""

    device: str = "cpu"
    attention_backend: str = CPU_BACKEND
    page_size: int = 1
    graphs: tuple[int, ...] = ()
    prefill_graphs: bool = False
    kv_dtype: str | None = None
    dtype: str = "float32"
    tokens: int = TOKENS

    @property
    def kv_dtypes(self) -> tuple[str | None, ...]:
        """What --kv-cache-dtype can ask for here, None for the model's own."""
        if self.device == "cpu":
            return (None, "bfloat16", "float8_e4m3fn")
        lacking = gpu.lacks_float8(self.attention_backend, self.dtype)
        return (None, "float8_e4m3fn") if lacking is None else (None,)

    def arguments(self) -> dict[str, Any]:
        """The server arguments that put an engine here."""
        chosen: dict[str, Any] = {
            "device": self.device,
            "attention_backend": self.attention_backend,
            "page_size": self.page_size,
        }
        if self.device == "cpu":
            return chosen
        sizes = list(self.graphs or (1,))
        return chosen | {
            "disable_cuda_graph": not self.graphs,
            "kv_cache_dtype": KV_NAMES[self.kv_dtype],
            # by the name that a version has for it
            "cuda_graph_bs": sizes,
            "cuda_graph_bs_decode": sizes,
            "cuda_graph_bs_prefill": list(PREFILL_SIZES),
            "disable_prefill_cuda_graph": not self.prefill_graphs,
            "disable_piecewise_cuda_graph": True,
        }


CPU_SEAT: Final = Seat()


def check_backend(device: str, attention_backend: str | None, dtype: str) -> str:
    """The backend to use on the device for a model in `dtype`, as torch names it; raises InputError where there is no
    such device or backend, a GPU too old, or a dtype that the backend has no kernels for."""
    if device == "cpu":
        if attention_backend in (None, CPU_BACKEND):
            return CPU_BACKEND
        where = "--attention-backend on cpu"
        raise InputError("attention backend", where=where, got=attention_backend, expected=CPU_BACKEND)
    check_gpu("--device cuda")
    name = attention_backend or CUDA_BACKEND
    gpu.check_backend(name, "--attention-backend")
    gpu.check_dtypes(name, dtype, "auto")
    return name
