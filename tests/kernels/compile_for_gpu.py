"""Compile every kernel for an H200 (sm_90), and float8 for the oldest GPU that has it: needs no GPU, but a process
without TRITON_INTERPRET; a line for each."""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompilationError

from vskipper.kernels.cohort import _PACKED_ORDER, _plan_kernel
from vskipper.kernels.decode_attention import _decode_kernel
from vskipper.kernels.gemm import _gemm_kernel
from vskipper.kernels.gpu import FLOAT8, OLDEST
from vskipper.kernels.interpreter import Kernel
from vskipper.kernels.scatter import _scatter_kernel
from vskipper.kernels.silu_mul import _silu_mul_kernel
from vskipper.kernels.tile import choose_tile

TARGET = GPUTarget("cuda", 90, 32)
SHARED_LIMIT = 227 * 1024
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
INTEGERS = {"rows": "*i32", "start": "*i32", "stop": "*i32", "offsets": "*i32", "kv_indptr": "*i32"}


def build(
    kernel: Kernel, types: dict[str, str], constants: dict[str, Any], target: GPUTarget = TARGET, **options: Any
) -> None:
    """Arguments that `types` does not name are int32 and a multiple of 16, as sizes and strides mostly are."""
    names = kernel.jitted.arg_names
    types = {name: "constexpr" if name in constants else types.get(name, INTEGERS.get(name, "i32")) for name in names}
    source = ASTSource(
        fn=kernel.jitted,
        signature=types,
        constexprs={(at,): constants[name] for at, name in enumerate(names) if name in constants},
        attrs={
            (at,): [["tt.divisibility", 16]]
            for at, name in enumerate(names)
            if types[name] not in ("constexpr", "fp32") and name not in ("start", "stop")
        },
    )
    shared = triton.compile(source, target=target, options=options).metadata.shared
    assert shared <= SHARED_LIMIT, (kernel.jitted.__name__, constants, shared)
    print("compiled", kernel.jitted.__name__, types, constants)


def build_gemm(dtype: str, capacity: int, fused: bool) -> None:
    tile = choose_tile(4096, 4096, capacity, DTYPES[dtype])
    blocks = {"BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n, "BLOCK_K": tile.block_k, "GROUP": tile.group}
    flags = dict.fromkeys(("GATHER", "SCALE", "ADD"), fused) | {"SCATTER": True, "EVEN_K": not fused}
    types = dict.fromkeys(("a", "weight", "scale", "out"), f"*{dtype}")
    options = {"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": False}
    build(_gemm_kernel, types, {"INTERPRETED": False, **flags, **blocks}, **options)


def build_decode(dtype: str, kv_dtype: str, target: GPUTarget = TARGET) -> None:
    types = dict.fromkeys(("q", "out"), f"*{dtype}") | dict.fromkeys(("k_cache", "v_cache"), f"*{kv_dtype}")
    types |= {"kv_indices": "*i64", "actions": "*u8", "valid": "*u8", "score_scale": "fp32", "v_scale": "fp32"}
    blocks = {"BLOCK_H": 16, "BLOCK_D": 128, "BLOCK_S": 32 if dtype == "fp32" else 64}
    constants = {"ATTENTION": 1, "HEADS": 3, "HEAD_DIM": 128, "INTERPRETED": False, **blocks}
    build(_decode_kernel, types, constants, target, num_warps=4, num_stages=2)


def build_float8(capability: tuple[int, int]) -> None:
    major, minor = capability
    build_decode("bf16", "fp8e4nv", GPUTarget("cuda", 10 * major + minor, 32))


def main() -> None:
    build(_plan_kernel, {"actions": "*u8", "valid": "*u8"}, {"ORDER": _PACKED_ORDER, "BLOCK": 512})
    blocks = {"INTERPRETED": False, "BLOCK_M": 4, "BLOCK_N": 256}
    for dtype in DTYPES:
        build(_silu_mul_kernel, dict.fromkeys(("gate_up", "out"), f"*{dtype}"), blocks)
        build(
            _scatter_kernel,
            dict.fromkeys(("src", "scale", "out"), f"*{dtype}"),
            {"SCALE": True, "ADD": True, **blocks},
        )
    for dtype, capacity, fused in (("bf16", 16, True), ("bf16", 64, False), ("bf16", 512, True), ("fp32", 16, True)):
        build_gemm(dtype, capacity, fused)
    for dtype, kv_dtype in (("bf16", "bf16"), ("bf16", "fp8e4nv"), ("fp16", "fp8e5"), ("fp32", "bf16")):
        build_decode(dtype, kv_dtype)
    build_float8(FLOAT8)
    try:
        build_float8(OLDEST)
    except CompilationError:
        return
    raise AssertionError(f"float8_e4m3fn compiles for {OLDEST} too")


if __name__ == "__main__":
    main()
