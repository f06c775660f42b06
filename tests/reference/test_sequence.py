"""reference/sequence.py against ReferenceModel, row by row, in float64."""

from __future__ import annotations

import pytest
import torch

from conformance.subjects import open_model
from properties.lifecycle.reference_alone import projector_of
from reference import flexidepth
from reference.model import ReferenceModel
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from reference.pool import PagedPool
from reference.sequence import SequenceModel
from vskipper.models.seeded import TINY_MODELS

ROWS, SPLIT = 9, 4


@pytest.mark.parametrize("name", TINY_MODELS)
@pytest.mark.parametrize("with_projector", [True, False])
def test_equals_the_reference(name: str, with_projector: bool) -> None:
    model, _ = open_model(name, None)
    wide = {key: tensor.to(torch.float64) for key, tensor in model.tensors.items()}
    tokens = tuple((7 * i * i + 3) % 100 for i in range(ROWS))
    tape = TapePlan(actions=tuple(tuple((i * 5 + layer * 3) % 4 for i in range(ROWS)) for layer in range(3)))

    def project_row(layer: int, y: torch.Tensor) -> torch.Tensor:
        return flexidepth.project(wide, layer, y)

    slow = ReferenceModel(
        model.config,
        wide,
        model.routed_layers,
        dtype=torch.float64,
        project=project_row if with_projector else None,
    )
    pool = PagedPool(model.config, PoolLayout(page_size=1, pages=ROWS + 1), torch.float64)
    pages = tuple(range(1, ROWS + 1))
    chunks = tuple(
        Chunk(request="r", tokens=(token,), start=i, pages=pages, phase="prefill") for i, token in enumerate(tokens)
    )
    expected = slow.step(pool, StepPlan(chunks=chunks), tape)

    fast = SequenceModel(
        model.config,
        wide,
        model.routed_layers,
        dtype=torch.float64,
        project=projector_of(wide) if with_projector else None,
    )
    actions = list(zip(*tape.actions, strict=True))
    shape = (0, model.config.num_key_value_heads, model.config.head_dim)
    empty = torch.empty(shape, dtype=torch.float64)
    first = fast.rows(((empty, empty),) * model.config.num_hidden_layers, tokens[:SPLIT], actions[:SPLIT])
    second = fast.rows(first.kv, tokens[SPLIT:], actions[SPLIT:])

    logits = torch.cat([first.logits, second.logits])
    torch.testing.assert_close(logits, expected.logits, rtol=1e-11, atol=1e-11)
    for layer, (one, two) in enumerate(zip(first.kv, second.kv, strict=True)):
        for got, stored in zip(zip(one, two, strict=True), pool.read(layer, pages), strict=True):
            torch.testing.assert_close(torch.cat(got), stored, rtol=1e-11, atol=1e-11)
