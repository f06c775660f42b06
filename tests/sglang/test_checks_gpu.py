"""What refuses an engine on a GPU at its start, on a GPU and arguments that are pretended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance.runtimes.sglang.seat import Seat
from vskipper.errors import InputError
from vskipper.sglang.checks import gpu as checks

LLAMA = {"hidden_size": 4096, "num_attention_heads": 32, "torch_dtype": "bfloat16"}


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An H200 with everything installed and an engine of known shape."""
    found: dict[str, Any] = {"capability": (9, 0), "packages": set(checks.BACKENDS.values()), "graphs": []}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    # the second GPU is always an H200
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0) if index else found["capability"])
    monkeypatch.setattr(checks, "find_spec", lambda name: name if name in found["packages"] else None)
    monkeypatch.setattr(checks, "probe_engine", lambda graphs: found["graphs"].append(graphs))
    return found


def given(**changed: Any) -> SimpleNamespace:
    served = {"attention_backend": "triton", "disable_cuda_graph": False, "kv_cache_dtype": "auto", "base_gpu_id": 0}
    return SimpleNamespace(**served | changed)


def by_phase(way: str) -> SimpleNamespace:
    return SimpleNamespace(decode=SimpleNamespace(backend=way))


def refused(arguments: SimpleNamespace, config: dict[str, Any] | None = None) -> str:
    with pytest.raises(InputError) as error:
        checks.check_engine(arguments, config or LLAMA)
    return str(error.value)


def test_it_is_the_gpu_that_the_engine_takes_which_is_looked_at(gpu: dict[str, Any]) -> None:
    gpu["capability"] = (7, 5)
    assert refused(given()).startswith("an older GPU [--device cuda]: got compute capability 7.5")
    checks.check_engine(given(base_gpu_id=1, attention_backend="fa3"), LLAMA)
    assert refused(given(base_gpu_id=2)) == "no such GPU [--base-gpu-id]: got 2, expected below 2"


@pytest.mark.parametrize("backend", checks.BACKENDS)
def test_the_three_backends_are_served_and_the_engine_is_probed_for_graphs(gpu: dict[str, Any], backend: str) -> None:
    checks.check_engine(given(attention_backend=backend, kv_cache_dtype="fp8_e4m3"), LLAMA)
    assert gpu["graphs"] == [True]


def test_a_backend_that_cannot_skip_rows_is_named_with_its_argument() -> None:
    told = "attention backend [--attention-backend]: got trtllm_mha, expected triton, flashinfer, fa3"
    assert refused(given(attention_backend="trtllm_mha")) == told
    split = given(decode_attention_backend="fa4", prefill_attention_backend="fa3")
    assert "[--decode-attention-backend]: got fa4" in refused(split)
    checks.check_engine(given(attention_backend="trtllm_mha", decode_attention_backend="fa3"), LLAMA)


def test_a_backend_that_is_not_installed_or_not_for_this_gpu(gpu: dict[str, Any]) -> None:
    gpu["packages"].discard("flashinfer")
    assert "[--attention-backend flashinfer]: got none" in refused(given(attention_backend="flashinfer"))
    gpu["capability"] = (10, 0)
    told = "attention backend for another GPU [--attention-backend fa3]: got compute capability 10.0, expected 8.0 to"
    assert refused(given(attention_backend="fa3")).startswith(told)


def test_how_decode_is_captured_is_asked_by_phase_where_the_engine_keeps_it() -> None:
    assert "[--cuda-graph-backend-decode]: got breakable" in refused(given(cuda_graph_config=by_phase("breakable")))
    odd = given(disable_cuda_graph=True, attention_backend="trtllm_mha", cuda_graph_config=by_phase("full"))
    assert "got trtllm_mha" in refused(odd)


@pytest.mark.parametrize("off", [{"disable_cuda_graph": True}, {"cuda_graph_config": by_phase("disabled")}])
def test_an_engine_that_captures_no_decode_may_attend_as_it_likes(off: dict[str, Any]) -> None:
    checks.check_engine(given(attention_backend="trtllm_mha", **off), LLAMA | {"head_dim": 512})


def test_heads_and_float8_that_the_kernels_do_not_serve(gpu: dict[str, Any]) -> None:
    assert "config.json: head_dim]: got 320" in refused(given(), LLAMA | {"head_dim": 320})
    assert checks.head_size(LLAMA) == 128
    gpu["capability"] = (7, 5)
    assert "an older GPU" in refused(given())


@pytest.mark.parametrize(
    ("capability", "backend", "served"),
    [
        ((8, 0), "triton", False),
        ((8, 6), "flashinfer", False),
        ((8, 9), "triton", True),
        ((8, 9), "fa3", False),
        ((9, 0), "fa3", True),
    ],
)
def test_the_suite_asks_for_float8_exactly_where_the_start_takes_it(
    gpu: dict[str, Any], capability: tuple[int, int], backend: str, served: bool
) -> None:
    gpu["capability"] = capability
    asked = given(attention_backend=backend, kv_cache_dtype="fp8_e4m3")
    seat = Seat(device="cuda", attention_backend=backend, dtype="bfloat16")
    assert seat.kv_dtypes == ((None, "float8_e4m3fn") if served else (None,))
    if served:
        checks.check_engine(asked, LLAMA)
    else:
        assert f"got fp8_e4m3, expected auto: {'fa3' if backend == 'fa3' else 'Triton'} has no" in refused(asked)


def test_a_model_in_float16_has_no_float8_with_fa3_in_the_suite_either() -> None:
    assert Seat(device="cuda", attention_backend="fa3", dtype="float16").kv_dtypes == (None,)


@pytest.mark.parametrize("backend", ["flashinfer", "fa3"])
def test_backends_without_float32(backend: str) -> None:
    for dtype in ("float", "float32"):
        assert "[--dtype]: got float32, expected bfloat16 or float16" in refused(
            given(attention_backend=backend, dtype=dtype)
        )
    checks.check_engine(given(attention_backend=backend, dtype="auto"), LLAMA | {"torch_dtype": "float32"})
    checks.check_engine(given(dtype="float32"), LLAMA)


def test_dtypes_of_k_and_v_that_are_not_the_model_s() -> None:
    for dtype in ("half", "float16", "float32"):
        assert "[--kv-cache-dtype]: got bf16" in refused(given(dtype=dtype, kv_cache_dtype="bf16"))
    told = refused(given(attention_backend="fa3", dtype="float16", kv_cache_dtype="fp8_e4m3"))
    assert told.startswith("KV dtype [--kv-cache-dtype]: got fp8_e4m3, expected auto: with float8")
    checks.check_engine(given(dtype="auto", kv_cache_dtype="bfloat16"), LLAMA)
    checks.check_engine(given(dtype="float16", kv_cache_dtype="fp8_e4m3"), LLAMA)


@pytest.mark.parametrize(
    ("dtype", "config", "expected"),
    [
        ("auto", {"torch_dtype": "float32"}, "float16"),
        ("auto", {}, "float16"),
        ("auto", {"dtype": "torch.bfloat16"}, "bfloat16"),
        ("half", {"torch_dtype": "bfloat16"}, "float16"),
    ],
)
def test_the_dtype_that_the_engine_takes(dtype: str, config: dict[str, Any], expected: str) -> None:
    assert checks.model_dtype(given(dtype=dtype), config) == expected
