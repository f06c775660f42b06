"""What is checked at the start of an engine on a GPU, above all whether its decode passes can be captured routed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

import torch

from vskipper.errors import InputError
from vskipper.kernels.decode_attention import LARGEST_HEAD
from vskipper.kernels.gpu import check_gpu, has_float8
from vskipper.sglang.plugin import probe_engine

# attention backends whose decode skips rows, with the package that each needs beside the engine
BACKENDS: Final = {"triton": "triton", "flashinfer": "flashinfer", "fa3": "sgl_kernel"}
# FlashAttention 3 is compiled for GPUs from the first capability to below the second
FA3: Final = ((8, 0), (10, 0))
# from which on it has kernels over float8_e4m3fn
FA3_FLOAT8: Final = (9, 0)
# backends without kernels for float32
HALF_ONLY: Final = ("flashinfer", "fa3")
# other names that --dtype takes
TORCH_NAMES: Final = {"half": "float16", "float": "float32"}


def check_engine(resolved: Any, model_config: Mapping[str, Any]) -> None:
    """resolved: SGLang's arguments. Raises InputError for a GPU, a version, a way to capture, an attention backend, a
    KV dtype or a head size with which routed decode cannot be captured."""
    index = resolved.base_gpu_id
    check_gpu("--base-gpu-id" if index else "--device cuda", index)
    probe_engine(graphs=True)
    way = _decode_capture(resolved)
    if way not in ("full", "disabled"):
        raise InputError("a way to capture decode", where="--cuda-graph-backend-decode", got=way, expected="full")
    if way == "disabled":
        return
    where, backend = _decode_backend(resolved)
    check_backend(backend, where, index)
    check_dtypes(backend, model_dtype(resolved, model_config), resolved.kv_cache_dtype, index)
    size = head_size(model_config)
    if size > LARGEST_HEAD:
        expected = f"{LARGEST_HEAD} or less, or --disable-cuda-graph"
        raise InputError("head size", where="config.json: head_dim", got=size, expected=expected)


def check_backend(name: str, where: str, index: int | None = None) -> None:
    """index: torch's of the GPU, None for the current one. Raises InputError for an attention backend that cannot skip
    rows, is not installed, or not for that GPU."""
    if name not in BACKENDS:
        raise InputError("attention backend", where=where, got=name, expected=", ".join(BACKENDS))
    if find_spec(BACKENDS[name]) is None:
        expected = f"the package {BACKENDS[name]}"
        raise InputError("no attention backend", where=f"{where} {name}", got="none", expected=expected)
    found = torch.cuda.get_device_capability(index)
    if name == "fa3" and not FA3[0] <= found < FA3[1]:
        (first, _), (beyond, _) = FA3
        got, expected = f"compute capability {found[0]}.{found[1]}", f"{first}.0 to below {beyond}.0"
        raise InputError("attention backend for another GPU", where=f"{where} fa3", got=got, expected=expected)


def check_dtypes(backend: str, dtype: str, kv_dtype: str, index: int | None = None) -> None:
    """dtype: the model's, as torch names it. kv_dtype: as --kv-cache-dtype does. index: as in check_backend().
    Raises InputError for what an attention backend or the GPU cannot run."""
    if backend in HALF_ONLY and dtype == "float32":
        expected = f"bfloat16 or float16 with {backend}"
        raise InputError("dtype of the model", where="--dtype", got=dtype, expected=expected)
    if kv_dtype in ("bf16", "bfloat16") and dtype != "bfloat16":
        raise InputError("KV dtype", where="--kv-cache-dtype", got=kv_dtype, expected=f"auto, with a model in {dtype}")
    lacking = lacks_float8(backend, dtype, index) if kv_dtype == "fp8_e4m3" else None
    if lacking is not None:
        raise InputError("KV dtype", where="--kv-cache-dtype", got=kv_dtype, expected=f"auto: {lacking}")


def lacks_float8(backend: str, dtype: str, index: int | None = None) -> str | None:
    """Arguments as in check_dtypes(). Why K and V cannot be float8_e4m3fn there, or None."""
    if backend == "fa3" and dtype == "float16":
        return "with float8 K and V fa3 answers in bfloat16, whatever the model's dtype"
    served = torch.cuda.get_device_capability(index) >= FA3_FLOAT8 if backend == "fa3" else has_float8(index)
    return None if served else f"{'fa3' if backend == 'fa3' else 'Triton'} has no float8_e4m3fn on this GPU"


def model_dtype(resolved: Any, model_config: Mapping[str, Any]) -> str:
    """What the engine loads the model in, as torch names it; left to itself it takes float16 for a model in float32."""
    asked = str(getattr(resolved, "dtype", "auto"))
    if asked != "auto":
        return TORCH_NAMES.get(asked, asked)
    own = str(model_config.get("dtype") or model_config.get("torch_dtype") or "float32").removeprefix("torch.")
    return "float16" if own == "float32" else own


def head_size(model_config: Mapping[str, Any]) -> int:
    """Of config.json."""
    given = model_config.get("head_dim")
    return int(given or model_config["hidden_size"] // model_config["num_attention_heads"])


def _decode_capture(resolved: Any) -> str:
    """How decode is captured: the newer engine keeps it by phase, whatever the older switch says."""
    by_phase = getattr(resolved, "cuda_graph_config", None)
    if by_phase is None:
        return "disabled" if resolved.disable_cuda_graph else "full"
    return str(by_phase.decode.backend)


def _decode_backend(resolved: Any) -> tuple[str, str]:
    """The argument that decides, and the backend that attends in decode."""
    own = getattr(resolved, "decode_attention_backend", None)
    return ("--decode-attention-backend", own) if own else ("--attention-backend", resolved.attention_backend)
