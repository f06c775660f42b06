"""The count-bounded GEMM against its twin: exact on integers, row invariant, inside the envelope, every edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from properties.kernels.gemm import (
    GemmCase,
    check_gemm,
    check_gemm_envelope,
    check_gemm_invariance,
    check_gemm_unit_scale,
)
from properties.violation import Violation
from vskipper.cohort import Span
from vskipper.errors import InputError
from vskipper.kernels.gemm import bounded_gemm
from vskipper.kernels.tile import Tile, choose_tile

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# the last is the largest that the interpreter takes; in float32 a GPU holds one stage of it
TILES = (
    Tile(block_m=16, block_n=16, block_k=16, group=1),
    Tile(block_m=16, block_n=64, block_k=32),
    Tile(block_m=32, block_n=16, block_k=128, group=2),
    Tile(block_m=64, block_n=128, block_k=64, group=3),
    Tile(block_m=128, block_n=32, block_k=256, stages=1),
)
flags = st.booleans()


@st.composite
def cases(draw: st.DrawFn) -> GemmCase:
    rows = draw(st.integers(1, 40))
    count = draw(st.integers(0, rows))
    return GemmCase(
        rows=rows,
        start=draw(st.integers(0, rows - count)),
        count=count,
        n=draw(st.integers(1, 70)),
        k=draw(st.integers(1, 70)),
        dtype=draw(st.sampled_from(DTYPES)),
        gather=draw(flags),
        scatter=draw(flags),
        scale=draw(flags),
        add=draw(flags),
        strided=draw(flags),
        seed=draw(st.integers(0, 1000)),
    )


@settings(max_examples=50, deadline=None, database=None)
@given(case=cases(), tile=st.sampled_from((None, *TILES)))
def test_exact_on_integers(case: GemmCase, tile: Tile | None, device: torch.device) -> None:
    check_gemm(case, device, partial(bounded_gemm, tile=tile))


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 128, 129, 130])
def test_every_count_edge(count: int, tile: Tile, device: torch.device) -> None:
    case = GemmCase(rows=130, start=0, count=count, n=36, k=40, dtype=torch.bfloat16, scale=True, seed=count)
    check_gemm(case, device, partial(bounded_gemm, tile=tile))


@pytest.mark.parametrize(("n", "k"), [(36, 576), (576, 36), (1, 1), (48, 130)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_odd_shapes(n: int, k: int, dtype: torch.dtype, device: torch.device) -> None:
    case = GemmCase(rows=21, start=3, count=17, n=n, k=k, dtype=dtype, scale=True, add=True, strided=True)
    check_gemm(case, device, bounded_gemm)
    check_gemm_envelope(case, device, bounded_gemm)


@settings(max_examples=12, deadline=None, database=None)
@given(case=cases(), tile=st.sampled_from((None, *TILES[:3])))
def test_row_invariance(case: GemmCase, tile: Tile | None, device: torch.device) -> None:
    check_gemm_invariance(case, device, partial(bounded_gemm, tile=tile))


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_invariance_of_a_large_block(dtype: torch.dtype, device: torch.device) -> None:
    case = GemmCase(rows=35, start=9, count=20, n=260, k=260, dtype=dtype)
    check_gemm_invariance(case, device, bounded_gemm)
    check_gemm_unit_scale(case, device, bounded_gemm)


def test_a_row_keeps_its_bits_when_the_capacity_changes(device: torch.device) -> None:
    """In the interpreter only: there the tile does not depend on the capacity."""
    if device.type != "cpu":
        assert choose_tile(4096, 4096, 16, torch.bfloat16) != choose_tile(4096, 4096, 512, torch.bfloat16)
        return
    assert choose_tile(4096, 4096, 16, torch.bfloat16) == choose_tile(4096, 4096, 512, torch.bfloat16)


def _count_changed(by: int, a: Tensor, weight: Tensor, span: Span, out: Tensor, **given: Any) -> None:
    bounded_gemm(a, weight, replace(span, stop=span.stop + by), out, **given)


def _order_ignored(a: Tensor, weight: Tensor, span: Span, out: Tensor, **given: Any) -> None:
    bounded_gemm(a, weight, replace(span, rows=span.rows.sort().values), out, **given)


def _packed_scale(a: Tensor, weight: Tensor, span: Span, out: Tensor, *, scale: Tensor, **given: Any) -> None:
    packed = scale.clone()
    packed[span.rows[int(span.start) : int(span.stop)].long()] = scale[: int(span.stop - span.start)]
    bounded_gemm(a, weight, span, out, scale=packed, **given)


def _add_ignored(a: Tensor, weight: Tensor, span: Span, out: Tensor, *, add: bool, **given: Any) -> None:
    bounded_gemm(a, weight, span, out, **given)


def _row_beside(a: Tensor, weight: Tensor, span: Span, out: Tensor, **given: Any) -> None:
    beside = replace(span, start=span.start + 1, stop=span.stop + 1)
    bounded_gemm(a, weight, beside, out, **given)


@pytest.mark.parametrize(
    "defect",
    [partial(_count_changed, 1), partial(_count_changed, -1), _order_ignored, _packed_scale, _add_ignored, _row_beside],
)
def test_the_exact_check_sees_a_defect(defect: Callable[..., None], device: torch.device) -> None:
    case = GemmCase(rows=20, start=2, count=9, n=20, k=20, scale=True, add=defect is _add_ignored)
    check_gemm(case, device, bounded_gemm)
    with pytest.raises(Violation) as caught:
        check_gemm(case, device, defect)
    assert caught.value.reason == "gemm_rows_differ"


def test_the_invariance_check_sees_a_defect(device: torch.device) -> None:
    def depends_on_count(a: Tensor, weight: Tensor, span: Span, out: Tensor, **given: Any) -> None:
        bounded_gemm(a, weight, span, out, **given)
        out *= 1 + 1e-6 * int(span.stop - span.start)

    case = GemmCase(rows=20, start=2, count=9, n=20, k=20)
    with pytest.raises(Violation) as caught:
        check_gemm_invariance(case, device, depends_on_count)
    assert caught.value.reason == "row_depends_on_others"


def test_the_envelope_check_sees_a_defect(device: torch.device) -> None:
    def bfloat16_inside(a: Tensor, weight: Tensor, span: Span, out: Tensor, **given: Any) -> None:
        bounded_gemm(a.bfloat16().float(), weight.bfloat16().float(), span, out, **given)

    case = GemmCase(rows=20, start=2, count=9, n=20, k=20)
    with pytest.raises(Violation) as caught:
        check_gemm_envelope(case, device, bfloat16_inside)
    assert caught.value.reason == "outside_envelope"


def test_refusals(device: torch.device) -> None:
    a, weight, out = (torch.zeros(shape, device=device) for shape in ((8, 6), (5, 6), (8, 5)))
    span = Span(
        rows=torch.arange(8, dtype=torch.int32, device=device),
        start=torch.zeros((), dtype=torch.int32, device=device),
        stop=torch.ones((), dtype=torch.int32, device=device),
    )
    good: dict[str, Any] = {"a": a, "weight": weight, "span": span, "out": out, "scale": torch.ones(8, device=device)}
    bounded_gemm(**good, gather=True, scatter=True)
    bad = {
        "a": (a[0], a.double(), a.to("meta"), a[:, :5], a[:7], torch.zeros(6, 8, device=device).T),
        "weight": (weight[0], weight.half(), weight.to("meta"), weight.T.contiguous().T, weight[:, :0], weight[:0]),
        "out": (out[0], out.half(), out[:, :4], out[:7], out.to("meta"), out[:1].expand(8, 5)),
        "scale": (torch.ones(7, device=device), torch.ones(8, 1, device=device), torch.ones(8, device=device).half()),
        "span.rows": (span.rows.long(), span.rows.repeat(2)[::2]),
        "span.start": (span.start.long(), span.start[None]),
        "span.stop": (span.stop.long(), span.stop[None]),
    }
    for name, values in bad.items():
        for value in values:
            field = name.removeprefix("span.")
            given = {"span": replace(span, **{field: value})} if name != field else {name: value}
            with pytest.raises(InputError) as caught:
                bounded_gemm(**{**good, **given}, gather=True, scatter=True)
            assert caught.value.where.startswith("bounded_gemm: "), (name, caught.value)


@pytest.mark.parametrize("field", ["block_m", "block_n", "block_k", "warps", "stages", "group"])
@pytest.mark.parametrize("size", [0, -16])
def test_a_tile_that_cannot_be_is_refused(field: str, size: int) -> None:
    with pytest.raises(InputError, match=f"Tile.{field}"):
        replace(TILES[0], **{field: size})


def test_a_tile_that_does_not_fit_is_refused(device: torch.device) -> None:
    """In the interpreter by its volume; on a GPU by the shared memory that its stages take, 384 KiB."""
    case = GemmCase(rows=4, start=0, count=4, n=128, k=128, dtype=torch.bfloat16)
    large = Tile(block_m=128, block_n=128, block_k=128, warps=8, stages=6)
    with pytest.raises(InputError, match="tile too large"):
        check_gemm(case, device, partial(bounded_gemm, tile=large))


@pytest.mark.parametrize(("field", "size"), [("block_n", 48), ("warps", 3)])
def test_no_power_of_two_is_refused(field: str, size: int) -> None:
    with pytest.raises(InputError, match=rf"Tile\.{field}"):
        replace(TILES[0], **{field: size})
