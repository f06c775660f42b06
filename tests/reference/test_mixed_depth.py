"""All four actions in both gate modes, against the equations written a second time (tests/reference/equations.py)."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from reference import flexidepth
from reference.action import ACTIONS, PROJECT_ONLY, RUN, SKIP_ATTN, SKIP_MLP
from reference.config import Architecture, ModelConfig
from reference.ledger import Ledger
from reference.model import ReferenceModel, ReferenceResult
from reference.plan import Chunk, Phase, PoolLayout, StepPlan, TapePlan
from reference.pool import PagedPool
from reference.routes import Decide
from reference.weights import expected_shapes
from tests.reference import equations

ROWS, ROUTED = 23, (1, 3)
SPLITS = ((0, ROWS), (0, 9, ROWS), (0, 1, 2, 20, 21, 22, ROWS))
MODELS: tuple[Architecture, ...] = ("llama", "qwen3")


def config_of(architecture: Architecture) -> ModelConfig:
    return ModelConfig(
        architecture=architecture,
        vocab_size=61,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        rms_norm_eps=1e-3,
        rope_theta=1000.0,
        rope_scaling=None,
        tie_word_embeddings=architecture == "qwen3",
        max_position_embeddings=64,
    )


def sizes(config: ModelConfig) -> equations.Sizes:
    return equations.Sizes(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        theta=config.rope_theta,
        qk_norm=config.architecture == "qwen3",
    )


def random_tensors(config: ModelConfig) -> dict[str, Tensor]:
    """The decoder's tensors, and at the routed layers FlexiDepth's, with bottlenecks of different sizes r 4 and m 6."""
    shapes = expected_shapes(config)
    d, r, m = config.hidden_size, 4, 6
    for layer in ROUTED:
        router, project = f"model.layers.{layer}.router.router_", f"model.layers.{layer}.router_proj."
        shapes |= {router + "enc.weight": (r, d), router + "norm.weight": (r,)}
        shapes |= {router + "dec.weight": (d, r), router + "head.weight": (1, d)}
        shapes |= {project + "gate_proj.weight": (m, d), project + "down_proj.weight": (m, d)}
        shapes |= {project + "up_proj.weight": (d, m)}
    generator = torch.Generator().manual_seed(3)
    noise = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    return {name: 1 + 0.3 * each if each.dim() == 1 else 0.3 * each for name, each in noise.items()}


def random_tape(seed: int, weighted: bool) -> TapePlan:
    draw = random.Random(seed)
    actions = tuple(tuple(draw.choice(ACTIONS) for _ in range(ROWS)) for _ in ROUTED)
    eighths = tuple(tuple(draw.randrange(9) for _ in range(ROWS)) for _ in ROUTED)
    return TapePlan(actions=actions, eighths=eighths if weighted else None)


def part(tape: TapePlan, start: int, end: int) -> TapePlan:
    eighths = None if tape.eighths is None else tuple(line[start:end] for line in tape.eighths)
    return TapePlan(actions=tuple(line[start:end] for line in tape.actions), eighths=eighths)


def forced_routes(tape: TapePlan) -> dict[int, equations.Routes]:
    def route(index: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        w = None if tape.eighths is None else torch.tensor(tape.eighths[index]).to(x.dtype) / 8
        return torch.tensor(tape.actions[index]), w

    return {layer: partial(route, index) for index, layer in enumerate(ROUTED)}


def run_in_chunks(
    model: ReferenceModel, tokens: list[int], split: tuple[int, ...], routes: Callable[[int, int], TapePlan | Decide]
) -> tuple[list[ReferenceResult], PagedPool, list[int]]:
    """One request in the chunks that `split` bounds; also the slots of its positions."""
    pool = PagedPool(model.config, PoolLayout(page_size=4, pages=9), model.dtype)
    pages = (5, 2, 8, 1, 7, 3)
    results = []
    for start, end in pairwise(split):
        phase: Phase = "decode" if end - start == 1 else "prefill"
        chunk = Chunk(request="r", tokens=tuple(tokens[start:end]), start=start, pages=pages, phase=phase)
        results.append(model.step(pool, StepPlan(chunks=(chunk,)), routes(start, end)))
    return results, pool, [pages[p // 4] * 4 + p % 4 for p in range(ROWS)]


def compare(
    run: tuple[list[ReferenceResult], PagedPool, list[int]], expected: dict[str, Tensor], split: tuple[int, ...]
) -> None:
    results, pool, slots = run
    close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)
    close(torch.cat([result.hidden for result in results], dim=1), expected["hidden"])
    close(torch.cat([result.logits for result in results]), expected["logits"][[end - 1 for end in split[1:]]])
    close(torch.stack([k[slots] for k, _ in pool.kv]), expected["keys"])
    close(torch.stack([v[slots] for _, v in pool.kv]), expected["values"])


def tokens_of(config: ModelConfig) -> list[int]:
    draw = random.Random(11)
    return [draw.randrange(config.vocab_size) for _ in range(ROWS)]


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "hard"])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_random_tapes_of_all_four_actions(architecture: Architecture, weighted: bool, split: tuple[int, ...]) -> None:
    config = config_of(architecture)
    tensors = random_tensors(config)
    tokens = tokens_of(config)
    model = ReferenceModel(config, tensors, ROUTED, dtype=torch.float64, project=partial(flexidepth.project, tensors))
    for seed in range(3):
        tape = random_tape(seed, weighted)
        assert {action for line in tape.actions for action in line} == set(ACTIONS)
        run = run_in_chunks(model, tokens, split, partial(part, tape))
        compare(run, equations.forward(tensors, sizes(config), torch.tensor(tokens), forced_routes(tape)), split)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "hard"])
def test_one_action_throughout(action: int, weighted: bool) -> None:
    config = config_of("llama")
    tensors = random_tensors(config)
    tokens = tokens_of(config)
    tape = TapePlan(actions=((action,) * ROWS,) * 2, eighths=((3,) * ROWS,) * 2 if weighted else None)
    model = ReferenceModel(config, tensors, ROUTED, dtype=torch.float64, project=partial(flexidepth.project, tensors))
    run = run_in_chunks(model, tokens, SPLITS[1], partial(part, tape))
    compare(run, equations.forward(tensors, sizes(config), torch.tensor(tokens), forced_routes(tape)), SPLITS[1])


def test_without_a_projector_the_residual_passes_on() -> None:
    config = config_of("llama")
    tensors = random_tensors(config)
    tokens = tokens_of(config)
    tape = TapePlan(actions=((PROJECT_ONLY,) * ROWS,) * 2)
    run = run_in_chunks(
        ReferenceModel(config, tensors, ROUTED, dtype=torch.float64), tokens, SPLITS[0], partial(part, tape)
    )
    expected = equations.forward(tensors, sizes(config), torch.tensor(tokens), forced_routes(tape), project=False)
    compare(run, expected, SPLITS[0])
    hidden = run[0][0].hidden
    assert all(torch.equal(hidden[layer], hidden[layer + 1]) for layer in ROUTED)


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("gate_mode", ["weighted", "hard"])
def test_flexidepth_gate_decides(architecture: Architecture, gate_mode: str) -> None:
    config = config_of(architecture)
    tensors = random_tensors(config)
    tokens = tokens_of(config)

    def route(layer: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        w = equations.router(tensors, layer, x, config.rms_norm_eps)
        return torch.where(w > 0.5, RUN, PROJECT_ONLY), w if gate_mode == "weighted" else None

    expected = equations.forward(
        tensors, sizes(config), torch.tensor(tokens), {layer: partial(route, layer) for layer in ROUTED}
    )
    decide = flexidepth.decide(tensors, config.rms_norm_eps, weighted=gate_mode == "weighted")
    model = ReferenceModel(config, tensors, ROUTED, dtype=torch.float64, project=partial(flexidepth.project, tensors))
    run = run_in_chunks(model, tokens, SPLITS[1], lambda start, end: decide)
    compare(run, expected, SPLITS[1])
    taken = {action for result in run[0] for line in result.actions for action in line}
    assert taken == {RUN, PROJECT_ONLY}
    assert all((result.weights is not None) == (gate_mode == "weighted") for result in run[0])


def test_the_threshold_is_strict() -> None:
    half = torch.tensor(0.5)
    assert not flexidepth.runs(half)
    assert flexidepth.runs(torch.nextafter(half, torch.tensor(1.0)))
    assert not flexidepth.runs(torch.nextafter(half, torch.tensor(0.0)))


def test_rows_of_one_pass_see_every_action_of_the_rows_before_them() -> None:
    """A RUN row's output changes with an earlier row's K/V, whatever that row did itself."""
    config = config_of("llama")
    tensors = random_tensors(config)
    tokens = tokens_of(config)
    model = ReferenceModel(config, tensors, (1,), dtype=torch.float64)
    for action in (PROJECT_ONLY, SKIP_MLP, SKIP_ATTN):
        line = (action,) * (ROWS - 1) + (RUN,)
        outputs = []
        for first in (tokens[0], tokens[0] ^ 1):
            routes = partial(part, TapePlan(actions=(line,)))
            results, _, _ = run_in_chunks(model, [first, *tokens[1:]], SPLITS[0], routes)
            outputs.append(results[0].hidden[2, -1])
        assert (outputs[0] - outputs[1]).abs().max() > 1e-3


def test_bfloat16_rounds_scale_and_branch_before_adding() -> None:
    """Gate mode weighted in the target dtype: s, then the branch, then their product, each rounded, then added."""
    config = config_of("llama")
    tensors = {name: each.bfloat16() for name, each in random_tensors(config).items()}
    given = torch.linspace(-3, 3, config.hidden_size).bfloat16()
    model = ReferenceModel(config, tensors, (1,), dtype=torch.bfloat16, project=lambda layer, y: given)
    w = torch.tensor([0.3359375], dtype=torch.bfloat16)
    pool = PagedPool(config, PoolLayout(page_size=4, pages=9), torch.bfloat16)
    chunk = Chunk(request="r", tokens=(5,), start=0, pages=(1,), phase="decode")
    result = model.step(pool, StepPlan(chunks=(chunk,)), lambda layer, x: ([PROJECT_ONLY], w))
    scale = (1 - w.double()).bfloat16()
    product = (scale.double() * given.double()).bfloat16()
    expected = (result.hidden[1, 0].double() + product.double()).bfloat16()
    assert result.hidden.dtype == torch.bfloat16 and torch.equal(result.hidden[2, 0], expected)


def test_the_ledger_notes_every_row_at_every_layer_whatever_it_does() -> None:
    config = config_of("qwen3")
    model = ReferenceModel(config, random_tensors(config), ROUTED, dtype=torch.float32)
    pool = PagedPool(config, PoolLayout(page_size=2, pages=4), torch.float32)
    chunk = Chunk(request="r", tokens=(1, 2, 3, 4), start=0, pages=(3, 1), phase="prefill")
    tape = TapePlan(actions=(ACTIONS, ACTIONS[::-1]))
    ledger = Ledger()
    for _ in range(2):
        model.step(pool, StepPlan(chunks=(chunk,)), tape, ledger)
    slots = (6, 7, 2, 3)
    assert [ledger.owner(slot) for slot in slots] == [("r", position) for position in range(4)]
    assert len(ledger.entries) == 2 * 4 * config.num_hidden_layers
    for layer in range(config.num_hidden_layers):
        entries = [ledger.written(layer, slot) for slot in slots]
        done = tape.actions[ROUTED.index(layer)] if layer in ROUTED else (RUN,) * 4
        assert [(entry.action, entry.version) for entry in entries if entry] == [(action, 1) for action in done]
    assert ledger.written(0, 1) is None and ledger.owner(4) is None
