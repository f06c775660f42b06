"""Masked paged-decode attention against its twin: needles, exact zeros, invariance, envelope, float8 pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from properties.kernels.decode_attention import (
    DecodeCase,
    check_decode_envelope,
    check_decode_invariance,
    check_needles,
)
from properties.violation import Violation
from vskipper.errors import InputError
from vskipper.kernels.decode_attention import paged_decode
from vskipper.kernels.gpu import has_float8
from vskipper.kernels.interpreter import interpreted

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# the interpreter has float8 on any machine
FLOAT8 = (torch.float8_e4m3fn,) if interpreted() or has_float8() else ()
KV_DTYPES = (None, torch.float16, torch.bfloat16, torch.float8_e5m2, *FLOAT8)


@st.composite
def cases(draw: st.DrawFn) -> DecodeCase:
    rows = draw(st.integers(1, 4))
    kv_heads = draw(st.sampled_from((1, 2, 3)))

    def each(strategy: st.SearchStrategy[Any]) -> tuple[Any, ...]:
        return draw(st.tuples(*[strategy] * rows))

    return DecodeCase(
        lengths=each(st.one_of(st.integers(0, 9), st.sampled_from((127, 128, 129, 260)))),
        actions=each(st.integers(0, 3)),
        valid=each(st.sampled_from((True, True, False))),
        heads=kv_heads * draw(st.sampled_from((1, 3, 4))),
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from((16, 24, 64))),
        dtype=draw(st.sampled_from(DTYPES)),
        kv_dtype=draw(st.sampled_from(KV_DTYPES)),
        index_dtype=draw(st.sampled_from((torch.int32, torch.int64))),
        k_scale=draw(st.sampled_from((1.0, 0.5))),
        v_scale=draw(st.sampled_from((1.0, 2.0))),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=20, deadline=None, database=None)
@given(case=cases())
def test_needles(case: DecodeCase, device: torch.device) -> None:
    check_needles(case, device, paged_decode)


@settings(max_examples=8, deadline=None, database=None)
@given(case=cases())
def test_envelope(case: DecodeCase, device: torch.device) -> None:
    check_decode_envelope(case, device, paged_decode)


@settings(max_examples=8, deadline=None, database=None)
@given(case=cases())
def test_invariance(case: DecodeCase, device: torch.device) -> None:
    check_decode_invariance(case, device, paged_decode)


MIXED = DecodeCase(lengths=(5, 130, 4, 1, 0), actions=(3, 1, 0, 3, 3), valid=(True, True, True, False, True))


def test_no_rows(device: torch.device) -> None:
    check_needles(DecodeCase(lengths=(), actions=(), valid=()), device, paged_decode)


def _with(change: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
    names = ("q", "k_cache", "v_cache", "kv_indptr", "kv_indices", "actions", "valid", "out")

    def defect(*given: Tensor, **scales: float) -> None:
        arguments: dict[str, Any] = {**dict(zip(names, given, strict=True)), **scales}
        change(arguments)
        paged_decode(**arguments)

    return defect


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given.update(actions=given["actions"] | 1),
        lambda given: given.update(valid=given["valid"] | True),
        lambda given: given.update(kv_indices=given["kv_indices"].roll(1)),
        lambda given: given.update(v_cache=given["k_cache"]),
        lambda given: given.update(v_scale=1.0),
        lambda given: given.update(q=given["q"].roll(1, dims=1)),
    ],
)
def test_the_check_sees_a_defect(change: Callable[[dict[str, Any]], None], device: torch.device) -> None:
    case = DecodeCase(lengths=MIXED.lengths, actions=MIXED.actions, valid=MIXED.valid, v_scale=2.0)
    check_needles(case, device, paged_decode)
    with pytest.raises(Violation) as caught:
        check_needles(case, device, _with(change))
    assert caught.value.reason == "attention_rows_differ"


def test_the_envelope_check_sees_a_defect(device: torch.device) -> None:
    with pytest.raises(Violation) as caught:
        check_decode_envelope(MIXED, device, _with(lambda given: given.update(softmax_scale=0.26)))
    assert caught.value.reason == "outside_envelope"


def test_the_invariance_check_sees_a_defect(device: torch.device) -> None:
    def later_rows_differ(*given: Tensor, **scales: float) -> None:
        paged_decode(*given, **scales)  # type: ignore[misc]
        given[-1].mul_(1 + 1e-6 * torch.arange(len(given[-1]), device=device)[:, None, None])

    with pytest.raises(Violation) as caught:
        check_decode_invariance(MIXED, device, later_rows_differ)
    assert caught.value.reason == "row_depends_on_others"


def test_refusals(device: torch.device) -> None:
    good: dict[str, Tensor] = {
        "q": torch.zeros(3, 4, 16, device=device),
        "k_cache": torch.zeros(9, 2, 16, device=device),
        "v_cache": torch.zeros(9, 2, 16, device=device),
        "kv_indptr": torch.zeros(4, dtype=torch.int32, device=device),
        "kv_indices": torch.zeros(0, dtype=torch.int64, device=device),
        "actions": torch.zeros(3, dtype=torch.uint8, device=device),
        "valid": torch.ones(3, dtype=torch.bool, device=device),
        "out": torch.zeros(3, 4, 16, device=device),
    }
    paged_decode(**good, softmax_scale=1.0)
    q = good["q"]
    bad: dict[str, tuple[Tensor, ...]] = {
        "q": (q[0], q.double(), q.to("meta"), q[:, :3], q.transpose(1, 2).contiguous().transpose(1, 2)),
        "k_cache": (
            good["k_cache"][0],
            good["k_cache"].half(),
            good["k_cache"].double(),
            good["k_cache"][..., :8],
            good["k_cache"][:, :0],
        ),
        "v_cache": (good["v_cache"][:8], good["v_cache"].half()),
        "kv_indptr": (good["kv_indptr"].long(), good["kv_indptr"][:3]),
        "kv_indices": (good["kv_indices"].short(), good["kv_indices"][None]),
        "actions": (good["actions"].int(), good["actions"][:2]),
        "valid": (good["valid"].int(), good["valid"][:2]),
        "out": (q[:2].clone(), q.half(), q[:1].expand(3, 4, 16)),
    }
    for name, values in bad.items():
        for value in values:
            with pytest.raises(InputError) as caught:
                paged_decode(**{**good, name: value}, softmax_scale=1.0)
            assert caught.value.where.startswith("paged_decode: "), (name, caught.value)
    large = {name: torch.zeros(3, 1, 257, device=device) for name in ("q", "k_cache", "v_cache", "out")}
    with pytest.raises(InputError, match="head size"):
        paged_decode(**{**good, **large}, softmax_scale=1.0)
    with pytest.raises(InputError, match="softmax_scale"):
        paged_decode(**good, softmax_scale=float("nan"))
