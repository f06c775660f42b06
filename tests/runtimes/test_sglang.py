"""The runtime `sglang`: SGLang's own runner passes the properties, sees what is broken in it, and refuses the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from conformance.runtimes.reference import ReferenceRuntime
from conformance.runtimes.sglang import process
from conformance.runtimes.sglang.runtime import SGLangRuntime
from conformance.subjects import SubjectSpec, build_subject
from properties.compare import Envelope
from properties.property import Subject
from properties.registry import CORE, by_id
from properties.run import run_property
from properties.runtime import Mode, Session, StepResult
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from tests.engine import needs_sglang
from vskipper.errors import InputError

MODELS = ("tiny-llama", "tiny-qwen3")
# torch_native attention knows no KV scales; the policy's own properties run without an engine
RULES = [rule.id for rule in CORE if rule.scope != "policy" and rule.id not in ("kv.scales", "pad.inert")]

# of many kinds of bad input a few concern the runtime
EXAMPLES = {"input.refused": 40}


def subject_of(model: str) -> Subject:
    return build_subject(SubjectSpec(runtime="sglang", model=model))


def opened(model: str, mode: Mode = "routed", *, layout: PoolLayout | None = None) -> Session:
    subject = subject_of(model)
    policy = subject.make_policy(subject.model.dtype)
    return subject.runtime.open(subject.model, policy, layout or layout_of(1), mode)


def layout_of(page_size: int) -> PoolLayout:
    return PoolLayout(page_size=page_size, pages=3 + 24 // page_size)


def schedule(page_size: int) -> tuple[StepPlan, ...]:
    """A ragged prefill, a mixed pass and a decode pass of two requests whose pages lie apart."""
    pages = {"a": tuple(range(1, 1 + max(1, 12 // page_size)))}
    pages["b"] = tuple(page + len(pages["a"]) for page in reversed(pages["a"]))

    def chunk(request: str, start: int, *tokens: int) -> Chunk:
        phase = "decode" if len(tokens) == 1 else "prefill"
        return Chunk(request=request, tokens=tokens, start=start, pages=pages[request], phase=phase)

    passes = (
        (chunk("a", 0, 5, 6, 7, 8), chunk("b", 0, 9, 10)),
        (chunk("b", 2, 11), chunk("a", 4, 5, 6, 7)),
        (chunk("a", 7, 5), chunk("b", 3, 9)),
    )
    return tuple(StepPlan(chunks=chunks) for chunks in passes)


def tape_of(plan: StepPlan) -> TapePlan:
    """Every action at every layer."""
    return TapePlan(actions=tuple(tuple((row + line) % 4 for row in range(plan.rows)) for line in range(3)))


def step_all(session: Session, page_size: int, tapes: bool = True) -> list[StepResult]:
    return [session.step(plan, tape_of(plan) if tapes else None) for plan in schedule(page_size)]


def same(one: list[StepResult], two: list[StepResult]) -> bool:
    return all(a.logits.equal(b.logits) and streams(a).equal(streams(b)) for a, b in zip(one, two, strict=True))


def streams(result: StepResult) -> Tensor:
    assert result.hidden is not None
    return result.hidden


@needs_sglang
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rule", RULES)
def test_the_properties_hold(rule: str, model: str) -> None:
    outcome = run_property(by_id(rule), subject_of(model), examples=EXAMPLES.get(rule, 3), seed=1)
    assert outcome.status == "passed", outcome


@needs_sglang
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("model", MODELS)
def test_dense_passes_are_the_engines_alone_and_equal_the_reference(model: str, page_size: int) -> None:
    subject = subject_of(model)
    policy = subject.make_policy(subject.model.dtype)
    layout = layout_of(page_size)
    reference = ReferenceRuntime().open(subject.model, policy, layout, "dense")
    session = subject.runtime.open(subject.model, policy, layout, "dense")
    decoder = import_module("vskipper.sglang.decoder").RoutedDecoder
    with mock.patch.object(decoder, "run", side_effect=AssertionError("a dense pass ran routed")):
        results = step_all(session, page_size, tapes=False)
    # both round: twice what the envelope allows where one of them is the truth
    slack = 2 * Envelope.of_layers(subject.model.config.num_hidden_layers).least(torch.float32)
    for got, plan in zip(results, schedule(page_size), strict=True):
        expected = reference.step(plan)
        for one, other in ((got.logits, expected.logits), (streams(got), streams(expected))):
            torch.testing.assert_close(one, other, rtol=0, atol=slack * float(other.abs().max()))
        assert got.actions.shape == (0, plan.rows) and not got.work and not got.cohorts


@needs_sglang
def test_engines_take_turns_without_disturbing_each_other() -> None:
    first = step_all(opened("tiny-llama"), 1)
    other = step_all(opened("tiny-qwen3"), 1)
    assert not same(first, other)
    sessions = [opened(model) for model in MODELS]
    turns = [[session.step(plan, tape_of(plan)) for session in sessions] for plan in schedule(1)]
    assert same([turn[0] for turn in turns], first)
    assert same([turn[1] for turn in turns], other)


@needs_sglang
def test_sessions_of_one_engine_have_pools_of_their_own() -> None:
    alone = step_all(opened("tiny-llama"), 1)
    one, two = opened("tiny-llama"), opened("tiny-llama")
    plans = schedule(1)
    one.step(plans[0], tape_of(plans[0]))
    # nothing of it reaches a session that has not stepped
    assert all(not bool(part.any()) for pair in two.kv for part in pair)
    assert same(step_all(two, 1), alone)
    one.close()
    assert same(step_all(two, 1), alone)


@needs_sglang
@pytest.mark.parametrize("kv_dtype", ["bfloat16", "float8_e4m3fn"])
def test_kv_is_stored_as_the_layout_says(kv_dtype: str) -> None:
    layout = replace(layout_of(16), kv_dtype=kv_dtype)
    plain, narrow = opened("tiny-llama", layout=layout_of(16)), opened("tiny-llama", layout=layout)
    plan = schedule(16)[0]
    plain.step(plan, tape_of(plan))
    narrow.step(plan, tape_of(plan))
    slots = [slot for chunk in plan.chunks for slot in chunk.own_slots(16)]
    for part in range(2):
        stored, exact = narrow.kv[0][part], plain.kv[0][part]
        assert stored.dtype == getattr(torch, kv_dtype)
        assert stored[slots].float().equal(exact[slots].to(stored.dtype).float())
        assert bool(stored[slots].float().any())


def _unwritten(original: Callable[..., None]) -> Callable[..., None]:
    """The last row of a pass keeps what was in its slot."""

    def broken(attention: Any, batch: Any, k: Tensor, v: Tensor) -> None:
        pool = import_module("vskipper.sglang.seams.kv_write").kv_pool(batch)
        slot = batch.out_cache_loc[-1]
        kept = [buffers[attention.layer_id][slot].clone() for buffers in (pool.k_buffer, pool.v_buffer)]
        original(attention, batch, k, v)
        for buffers, values in zip((pool.k_buffer, pool.v_buffer), kept, strict=True):
            buffers[attention.layer_id][slot] = values

    return broken


def _stale_table(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The request table is written once, for as many requests as there were."""
    kept: dict[int, Tensor] = {}

    def broken(table: Tensor, chunks: Sequence[Chunk], page_size: int) -> Tensor:
        old = kept.get(len(chunks))
        numbers = original(table, chunks, page_size)
        if old is not None and old.shape == table.shape:
            table.copy_(old)
        kept[len(chunks)] = table.clone()
        return numbers

    return broken


def _attends_everywhere(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A row that skips attention gets that of the first row which does not."""

    def broken(self: Any, layer: int, q: Tensor, rows: Tensor) -> Tensor:
        attended = original(self, layer, q, rows)
        return attended.roll(1, 0)

    return broken


@needs_sglang
@pytest.mark.parametrize(
    ("seam", "fault", "rule", "reasons"),
    [
        ("vskipper.sglang.attention.write_kv", _unwritten, "kv.complete", {"missing_write"}),
        ("conformance.runtimes.sglang.batch._fill_table", _stale_table, "map.fresh", {"stale_map", "wrong_first_pass"}),
        ("vskipper.sglang.attention.EngineAttention.attend_rows", _attends_everywhere, "sem.outputs", {"wrong_hidden"}),
    ],
)
def test_what_is_broken_at_the_engines_seams_is_seen(
    seam: str, fault: Callable[[Any], Any], rule: str, reasons: set[str]
) -> None:
    owner, _, name = seam.rpartition(".")
    holder = _resolve(owner)
    with mock.patch.object(holder, name, fault(getattr(holder, name))):
        outcome = run_property(by_id(rule), subject_of("tiny-llama"), examples=20, seed=3, shrink=False)
    assert outcome.status == "failed" and outcome.violation is not None, outcome
    assert outcome.violation.reason in reasons, outcome


def _resolve(path: str) -> Any:
    """A module, or a class in one."""
    if find_spec(path.rpartition(".")[0]) is not None and path.rpartition(".")[2][0].isupper():
        return getattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2])
    return import_module(path)


@needs_sglang
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"k_scale": 0.5}, "KV scales .* 0.5 and 1.0"),
        ({"v_scale": 4.0}, "KV scales .* 1.0 and 4.0"),
        ({"kv_dtype": "float16"}, "KV dtype .* float16"),
        ({"page_size": 3}, "page size"),
    ],
)
def test_a_layout_that_the_engine_has_not_is_refused(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        opened("tiny-llama", layout=replace(layout_of(1), **change))


def _longer_than_the_model() -> StepPlan:
    chunk = Chunk(request="a", tokens=(1,), start=5000, pages=tuple(range(1, 5002)), phase="decode")
    return StepPlan(chunks=(chunk,))


def _many_requests() -> StepPlan:
    chunks = (Chunk(request=f"r{page}", tokens=(1,), start=0, pages=(page,), phase="prefill") for page in range(1, 40))
    return StepPlan(chunks=tuple(chunks))


@needs_sglang
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            lambda: replace(schedule(1)[0], padding=15),
            r"chunks and padding rows .* and 15, expected 15 or fewer in all",
        ),
        (_many_requests, r"chunks and padding rows .* got 39 and 0, expected 15 or fewer in all"),
        (_longer_than_the_model, "positions of a request .* got 5001, expected 20"),
    ],
)
def test_a_plan_that_the_engine_cannot_run_is_refused(plan: Callable[[], StepPlan], expected: str) -> None:
    session = opened("tiny-llama", layout=PoolLayout(page_size=1, pages=5100))
    with pytest.raises(InputError, match=expected):
        session.step(plan(), None)


@needs_sglang
def test_a_model_without_a_folder_is_refused() -> None:
    subject = subject_of("tiny-llama")
    model = replace(subject.model, directory=None)
    with pytest.raises(InputError, match="model folder"):
        subject.runtime.open(model, subject.make_policy(model.dtype), layout_of(1), "routed")


def test_the_runtime_says_that_sglang_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"SGLang .*: got not installed"):
        SGLangRuntime()
