"""The oracle's small parts: norm, rotation, attention, the pool's bytes and the ledger."""

from __future__ import annotations

import math

import pytest
import torch

from reference.attention import attend
from reference.config import ModelConfig
from reference.ledger import Entry, Ledger
from reference.norm import rms_norm
from reference.plan import PoolLayout
from reference.pool import PagedPool
from reference.rope import rotate

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=8,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=2,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    rope_scaling=None,
    tie_word_embeddings=True,
    max_position_embeddings=32,
)


def test_norm_rounds_before_the_weight() -> None:
    """In bfloat16: variance and quotient in float32, one rounding, then the product's own."""
    x = torch.randn(64, generator=torch.Generator().manual_seed(0)).bfloat16()
    weight = torch.linspace(0.5, 1.5, 64).bfloat16()
    exact = x.double() / math.sqrt(x.double().square().mean().item() + 1e-5)
    assert torch.equal(rms_norm(x, weight, 1e-5), (exact.bfloat16().double() * weight.double()).bfloat16())


def test_norm_sees_epsilon() -> None:
    x = torch.full((4,), 1e-3, dtype=torch.float64)
    expected = 1e-3 / math.sqrt(1e-6 + 1e-2)
    torch.testing.assert_close(rms_norm(x, torch.ones(4, dtype=torch.float64), 1e-2), torch.full_like(x, expected))


def test_rotation_pairs_halves() -> None:
    """A quarter turn of the first pair takes (x0, x2) to (-x2, x0) and leaves the still pair alone."""
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    turned = rotate(x, 3, torch.tensor([math.pi / 6, 0.0], dtype=torch.float64))
    torch.testing.assert_close(turned, torch.tensor([[-3.0, 2.0, 1.0, 4.0]], dtype=torch.float64))


def test_attention_groups_neighbouring_query_heads() -> None:
    """With one position of context the output is that position's value, of the query head's own kv head."""
    q, k = torch.ones(4, 2), torch.ones(1, 2, 2)
    v = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert attend(q, k, v).tolist() == [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]


def test_attention_weighs_by_scaled_scores() -> None:
    q = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    k = torch.tensor([[[1.0, 5.0]], [[0.0, 7.0]]], dtype=torch.float64)
    v = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]], dtype=torch.float64)
    first = 1 / (1 + math.exp(-2 / math.sqrt(2)))
    torch.testing.assert_close(attend(q, k, v), torch.tensor([[first, 1 - first]], dtype=torch.float64))


def test_bfloat16_products_are_summed_in_float32() -> None:
    """The oracle leans on torch's matrix-vector product: 4,096 terms of 2^-8 behind a 1 must not be lost."""
    row = torch.tensor([[1.0] + [2.0**-8] * 4096]).bfloat16()
    assert (row @ torch.ones(4097).bfloat16()).item() == 17.0


def test_pool_begins_with_nan_and_keeps_what_it_is_given() -> None:
    pool = PagedPool(CONFIG, PoolLayout(page_size=2, pages=3), torch.float32)
    assert all(each.isnan().all() and each.shape == (6, 2, 2) for pair in pool.kv for each in pair)
    k, v = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    pool.write(1, 4, k, v)
    read_k, read_v = pool.read(1, (4, 5))
    assert torch.equal(read_k[0], k) and torch.equal(read_v[0], v)
    assert read_k[1].isnan().all() and read_v[1].isnan().all()
    assert all(each.isnan().all() for each in pool.kv[0])
    assert pool.kv[1][0].isnan().sum() == 5 * 4


@pytest.mark.parametrize("kv_dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_pool_stores_value_over_scale(kv_dtype: str) -> None:
    layout = PoolLayout(page_size=1, pages=3, kv_dtype=kv_dtype, k_scale=0.25, v_scale=4.0)
    pool = PagedPool(CONFIG, layout, torch.float32)
    k, v = torch.tensor([[1.0, 0.3], [-2.0, 0.0]]), torch.tensor([[6.0, 1.1], [0.5, -3.0]])
    pool.write(0, 2, k, v)
    stored_k, stored_v = pool.kv[0]
    assert stored_k.dtype == getattr(torch, kv_dtype) and stored_k[1].float().isnan().all()
    assert torch.equal(stored_k[2].float(), (k * 4).to(stored_k.dtype).float())
    assert torch.equal(stored_v[2].float(), (v / 4).to(stored_v.dtype).float())
    read_k, read_v = pool.read(0, (2,))
    assert torch.equal(read_k[0], stored_k[2].float() / 4) and torch.equal(read_v[0], stored_v[2].float() * 4)
    assert read_k.dtype == torch.float32 and not torch.equal(read_k[0], k)


def test_ledger_counts_rewrites_and_hands_slots_over() -> None:
    ledger = Ledger()
    first = ledger.record(request="a", position=3, layer=0, slot=9, action=0)
    assert first == Entry(request="a", position=3, layer=0, slot=9, action=0, version=0)
    assert ledger.record(request="a", position=3, layer=1, slot=9, action=3).version == 0
    # retracted and run again elsewhere, while another request takes the slot over
    assert ledger.record(request="a", position=3, layer=0, slot=5, action=3).version == 1
    taken = ledger.record(request="b", position=0, layer=0, slot=9, action=3)
    assert ledger.written(0, 9) == taken and ledger.owner(9) == ("b", 0)
    assert ledger.version("a", 3, 0) == 1 and ledger.version("b", 0, 0) == 0 and ledger.version("b", 1, 0) is None
    assert [entry.slot for entry in ledger.entries] == [9, 9, 5, 9]
    assert ledger.written(1, 5) is None and ledger.owner(0) is None
