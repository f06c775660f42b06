"""With no layer routed the oracle is the Hugging Face model: logits, hidden states and every layer's K/V."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from reference.config import ModelConfig
from reference.model import ReferenceModel
from reference.plan import Chunk, Phase, PoolLayout, StepPlan, TapePlan
from reference.pool import PagedPool
from tests.reference.huggingface import BUILDERS, Account, account, build

# two orders of summation were 23 epsilons of the largest value apart at most, over all models; a wrong term is off by
# a percent and more
TOLERANCE = {dtype: 256 * torch.finfo(dtype).eps for dtype in (torch.float64, torch.float32)}
SHARED = 64


def close(got: Tensor, expected: Tensor) -> None:
    scale = expected.abs().max().clamp(min=1.0).item()
    torch.testing.assert_close(got, expected, rtol=0.0, atol=TOLERANCE[expected.dtype] * scale)


def page_tables(page_size: int) -> tuple[PoolLayout, dict[str, tuple[int, ...]]]:
    """Shuffled pages for three requests of up to 80 positions; `c` shares the pages of `a`'s first 64 tokens."""
    needed = -(-80 // page_size)
    pages = list(range(1, 1 + 4 * needed))
    random.Random(page_size).shuffle(pages)
    a, b, c = pages[:needed], pages[needed : 2 * needed], pages[2 * needed : 3 * needed]
    shared = SHARED // page_size
    tables = {"a": tuple(a), "b": tuple(b), "c": tuple(a[:shared] + c[shared:])}
    return PoolLayout(page_size=page_size, pages=1 + len(pages)), tables


def sequences(vocab: int) -> dict[str, tuple[int, ...]]:
    draw = random.Random(7)
    a = tuple(draw.randrange(vocab) for _ in range(72))
    b = tuple(draw.randrange(vocab) for _ in range(40))
    return {"a": a, "b": b, "c": a[:SHARED] + tuple(draw.randrange(vocab) for _ in range(9))}


def schedule() -> list[list[tuple[str, int, int]]]:
    """Chunked prefill, a mixed pass, decode, then a request that starts behind a reused prefix."""
    return [
        [("a", 0, 33)],
        [("a", 33, 70), ("b", 0, 17)],
        [("a", 70, 71), ("b", 17, 38)],
        [("b", 38, 39), ("c", SHARED, 72), ("a", 71, 72)],
        [("c", 72, 73), ("b", 39, 40)],
    ]


def chunk(request: str, start: int, end: int, tokens: Sequence[int], pages: tuple[int, ...]) -> Chunk:
    phase: Phase = "decode" if end - start == 1 else "prefill"
    return Chunk(request=request, tokens=tuple(tokens[start:end]), start=start, pages=pages, phase=phase)


def check_pool(pool: PagedPool, layout: PoolLayout, table: tuple[int, ...], expected: Account) -> None:
    slots = [
        table[p // layout.page_size] * layout.page_size + p % layout.page_size for p in range(len(expected.logits))
    ]
    for layer, (keys, values) in enumerate(pool.kv):
        close(keys[slots], expected.keys[layer])
        close(values[slots], expected.values[layer])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("name", BUILDERS)
def test_chunks_decode_and_prefix_reuse_equal_one_pass_of_transformers(
    name: str, page_size: int, dtype: torch.dtype
) -> None:
    model = build(name, dtype)
    config = ModelConfig.from_hf(model.config.to_dict())
    layout, tables = page_tables(page_size)
    tokens = sequences(config.vocab_size)
    expected = {request: account(model, tokens[request]) for request in tokens}
    oracle = ReferenceModel(config, dict(model.state_dict()), (), dtype=dtype)
    pool = PagedPool(config, layout, dtype)

    for parts in schedule():
        chunks = tuple(chunk(request, start, end, tokens[request], tables[request]) for request, start, end in parts)
        result = oracle.step(pool, StepPlan(chunks=chunks, padding=3, fill="nan"))
        close(result.logits, torch.stack([expected[request].logits[end - 1] for request, _, end in parts]))
        close(
            result.hidden[:-1],
            torch.cat([expected[request].hidden[:, start:end] for request, start, end in parts], dim=1),
        )
        assert result.actions == () and result.weights is None
    for request, table in tables.items():
        check_pool(pool, layout, table, expected[request])


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_tape_of_run_at_weight_one_is_the_dense_model_bit_for_bit(name: str, weighted: bool) -> None:
    model = build(name, torch.float32)
    config = ModelConfig.from_hf(model.config.to_dict())
    layout, tables = page_tables(16)
    tokens = sequences(config.vocab_size)["b"]
    plan = StepPlan(chunks=(chunk("b", 0, 20, tokens, tables["b"]),))
    tape = TapePlan(actions=((3,) * 20,) * 2, eighths=((8,) * 20,) * 2 if weighted else None)
    tensors = dict(model.state_dict())
    dense_pool, routed_pool = (PagedPool(config, layout, torch.float32, fill=0.0) for _ in range(2))
    dense = ReferenceModel(config, tensors, (), dtype=torch.float32).step(dense_pool, plan)
    routed = ReferenceModel(config, tensors, (1, 2), dtype=torch.float32).step(routed_pool, plan, tape)
    assert torch.equal(dense.hidden, routed.hidden) and torch.equal(dense.logits, routed.logits)
    for (dense_k, dense_v), (routed_k, routed_v) in zip(dense_pool.kv, routed_pool.kv, strict=True):
        assert torch.equal(dense_k, routed_k) and torch.equal(dense_v, routed_v)
    assert routed.actions == tape.actions
