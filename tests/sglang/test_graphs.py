"""Two variants of a decode graph: what each capture and each replay sees, on a runner made of plain Python."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.execution.routed_pass import Evidence
from vskipper.policy import RowBatch
from vskipper.sglang.batches import fetched
from vskipper.sglang.decoder import RoutedDecoder
from vskipper.sglang.graphs.buffers import CapturedPass, GraphBuffers
from vskipper.sglang.graphs.metadata import FILE, VariantMetadata
from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.graphs.variant import Variant, current_variant, using
from vskipper.sglang.passes import Attempt, PassPlan, current_pass, published
from vskipper.sglang.seams.decode_runner import FiledGraphs

LAYERS = 3
HIDDEN = 8


class Runner:
    """Notes what it captures and replays; files a plan by size, as attention backends do."""

    def __init__(self) -> None:
        self.attn_backend = SimpleNamespace(**{FILE: {"static": object()}})
        self.model_runner = SimpleNamespace(req_to_token_pool=SimpleNamespace(size=6))
        self.capture_bs, self.max_bs, self.device = [1, 2, 4], 4, "cpu"
        self.captured: list[tuple[int, Variant, str]] = []
        self.replayed: list[tuple[Variant, Any]] = []
        self.graphs: dict[int, str] = {}
        self.output_buffers: dict[int, str] = {}

    def capture(self, size: int) -> None:
        source = type(current_pass()).__name__
        self.captured.append((size, current_variant(), source))
        getattr(self.attn_backend, FILE)[size] = (size, current_variant())

    def capture_filed(self, size: int) -> tuple[str, str]:
        """As a runner that files what comes back under the size alone."""
        self.capture(size)
        return f"{current_variant()} graph", f"{current_variant()} outputs"

    def replay_filed(self, forward_batch: Any) -> Any:
        self.execute(forward_batch)
        return self.graphs[4], self.output_buffers[4]

    def execute(self, forward_batch: Any) -> str:
        size = min(size for size in self.capture_bs if size >= forward_batch.batch_size)
        self.replayed.append((current_variant(), getattr(self.attn_backend, FILE)[size]))
        return "output"


class Batch:
    """A source that asks for a routed pass of `keys`, or for a dense one."""

    def __init__(self, keys: list[int] | None, force_run: list[bool] | None = None) -> None:
        self.keys, self.force_run = keys, force_run
        self.evidence: list[Evidence] = []
        self.was_uncovered = False

    def plan(self, input_ids: Tensor, positions: Tensor, forward_batch: Any) -> PassPlan | None:
        if self.keys is None:
            return None
        rows = len(self.keys)
        batch = RowBatch(
            request_keys=torch.tensor(self.keys),
            positions=positions,
            token_ids=input_ids,
            phases=torch.ones(rows, dtype=torch.int8),
            valid=torch.ones(rows, dtype=torch.bool),
        )
        force = None if self.force_run is None else torch.tensor(self.force_run)
        return PassPlan(rows=batch, force_run=force, done=lambda run: None, replayed=self.keep)

    def keep(self, found: Evidence) -> None:
        self.evidence.append(Evidence(actions=fetched(found.actions), counts=fetched(found.counts)))

    def recover(self, attempt: Attempt, error: PolicyError) -> Tensor | None:
        raise error

    def uncovered(self) -> None:
        self.was_uncovered = True


def forward_batch(rows: int) -> Any:
    ids = torch.arange(rows)
    return SimpleNamespace(batch_size=rows, input_ids=ids, positions=ids, out_cache_loc=ids)


def plenty() -> int:
    return 1 << 40


def captured(
    *sizes: int, free: Callable[[], int] = plenty, own: Callable[[], int] = plenty
) -> tuple[Runner, RoutedGraphs]:
    runner, graphs = Runner(), RoutedGraphs(LAYERS, free, own)
    for size in sizes:
        graphs.capture(Runner.capture, runner, size)
    return runner, graphs


def replay(runner: Runner, graphs: RoutedGraphs, batch: Batch | None, rows: int) -> None:
    with published(batch):
        assert graphs.execute(Runner.execute, runner, forward_batch(rows)) == "output"


def test_every_size_is_captured_dense_first_and_routed_with_its_own_source() -> None:
    runner, graphs = captured(4, 2)
    assert runner.captured == [
        (size, variant, source)
        for size in (4, 2)
        for variant, source in ((Variant.DENSE, "NoneType"), (Variant.ROUTED, "CapturedPass"))
    ]
    assert graphs.sizes == {2, 4} and current_variant() == Variant.DENSE and current_pass() is None


def test_batches_that_may_run_and_are_too_large_for_any_graph_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    captured(4, 2)
    assert [record.getMessage() for record in caplog.records] == [
        "vskipper: decode batches of more than 4 rows run dense, and 6 may run"
    ]


def test_where_memory_is_short_the_smaller_sizes_are_captured_and_the_rest_runs_dense() -> None:
    # MiB: the first dense graph takes 200, the first routed one 100, later ones next to nothing
    own = iter(mib << 20 for mib in (0, 200, 200, 201, 301, 302))
    left = iter(mib << 20 for mib in (500, 499, 399, 398, 397))
    runner, graphs = captured(4, 2, 1, free=lambda: next(left), own=lambda: next(own))
    assert graphs.left_out == {4} and graphs.sizes == {1, 2}
    assert [entry[:2] for entry in runner.captured if entry[0] == 4] == [(4, Variant.DENSE)]
    assert graphs.facts() == {"routed": [1, 2], "left_out": [4], "bytes": 101 << 20}
    batch = Batch([1, 2, 3])
    replay(runner, graphs, batch, 3)
    assert batch.was_uncovered and runner.replayed == [(Variant.DENSE, (4, Variant.DENSE))]


def test_memory_that_another_process_takes_is_not_taken_for_a_graph_s() -> None:
    left = iter(mib << 20 for mib in (50_000, 2_000, 1_000, 900))
    _, graphs = captured(4, 2, free=lambda: next(left), own=lambda: 0)
    assert graphs.sizes == {2, 4} and not graphs.left_out


def test_a_new_runner_starts_from_nothing() -> None:
    """As where the engine captures anew: sizes, left-out sizes, buffers and files of plans are the new runner's."""
    runner, graphs = captured(4, 2)
    buffers = graphs.allocated(runner)
    again = Runner()
    graphs._free = lambda: 1 << 20
    graphs.capture(Runner.capture, again, 4)
    assert graphs.facts() == {"routed": [], "left_out": [4], "bytes": 0}
    assert graphs.allocated(again) is not buffers
    batch = Batch([1, 2, 3])
    replay(again, graphs, batch, 3)
    assert batch.was_uncovered


def test_an_end_of_a_capture_that_fails_over_the_lack_of_memory_is_the_lack_of_memory() -> None:
    def broken(runner: Runner, size: int) -> str:
        if current_variant() == Variant.DENSE:
            return "dense"
        try:
            raise torch.OutOfMemoryError("4 GiB were asked for")
        finally:
            raise RuntimeError("capture ends with unjoined work")

    graphs = RoutedGraphs(LAYERS, plenty, plenty)
    assert graphs.capture(broken, Runner(), 4) == "dense"
    assert graphs.left_out == {4}


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("4 GiB were asked for"), RuntimeError("Triton Error [CUDA]: out of memory")]
)
def test_a_routed_graph_that_finds_no_memory_is_left_out_and_the_start_goes_on(error: RuntimeError) -> None:
    def short(runner: Runner, size: int) -> None:
        if current_variant() == Variant.ROUTED and size == 4:
            raise error
        runner.capture(size)

    runner, graphs = Runner(), RoutedGraphs(LAYERS, plenty, plenty)
    for size in (4, 2):
        graphs.capture(short, runner, size)
    assert graphs.left_out == {4} and graphs.sizes == {2} and current_variant() == Variant.DENSE
    assert current_pass() is None and getattr(runner.attn_backend, FILE)[4] == (4, Variant.DENSE)


def test_what_else_goes_wrong_in_a_capture_ends_the_start() -> None:
    def broken(runner: Runner, size: int) -> None:
        if current_variant() == Variant.ROUTED:
            raise RuntimeError("a policy that cannot be captured")

    with pytest.raises(RuntimeError, match="cannot be captured"):
        RoutedGraphs(LAYERS, plenty, plenty).capture(broken, Runner(), 4)


def test_a_policy_that_cannot_be_captured_is_named_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def broken(runner: Runner, size: int) -> None:
        if current_variant() == Variant.ROUTED:
            raise PolicyError("x", policy="p", hook="route", location="p.py:3", got="a\nb", expected="c")

    with pytest.raises(PolicyError):
        RoutedGraphs(LAYERS, plenty, plenty).capture(broken, Runner(), 4)
    assert (
        caplog.messages[-1]
        == "vskipper: no routed graph for 4 rows: policy p, hook route: x [p.py:3]: got a b, expected c"
    )


def test_replays_in_any_order_see_their_own_plan() -> None:
    runner, graphs = captured(4, 2)
    for batch in (Batch([1, 2, 3]), None, Batch(None), Batch([1, 2, 3])):
        replay(runner, graphs, batch, 3)
    plans = [Variant.ROUTED, Variant.DENSE, Variant.DENSE, Variant.ROUTED]
    assert runner.replayed == [(variant, (4, variant)) for variant in plans]


def test_a_runner_that_files_a_graph_by_its_size_is_shown_the_variant_s() -> None:
    runner, graphs = Runner(), RoutedGraphs(LAYERS, plenty, plenty)
    runner.graphs[4], runner.output_buffers[4] = FiledGraphs(graphs).capture(Runner.capture_filed, runner, 4)
    # the seam may be put in again between a capture and its replays
    filed = FiledGraphs(graphs)
    for batch, variant in ((Batch([1, 2, 3]), Variant.ROUTED), (None, Variant.DENSE), (Batch(None), Variant.DENSE)):
        with published(batch):
            found = filed.replay(Runner.replay_filed, runner, forward_batch(3))
        assert found == (f"{variant} graph", f"{variant} outputs")
    assert runner.graphs == {4: "dense graph"} and runner.output_buffers == {4: "dense outputs"}


def test_a_capture_in_the_middle_of_a_routed_pass_is_dense_first() -> None:
    runner, graphs = Runner(), RoutedGraphs(LAYERS, plenty, plenty)
    with published(Batch([1])), using(Variant.ROUTED):
        graphs.capture(Runner.capture, runner, 4)
    assert [entry[1:] for entry in runner.captured] == [
        (Variant.DENSE, "NoneType"),
        (Variant.ROUTED, "CapturedPass"),
    ]


def test_static_buffers_of_a_backend_are_shared_between_the_files() -> None:
    runner, _ = captured(4)
    metadata, backend = VariantMetadata(), runner.attn_backend
    dense = getattr(backend, FILE)
    metadata.use(backend, Variant.DENSE)
    with metadata.using(backend, Variant.ROUTED):
        assert getattr(backend, FILE) == {"static": dense["static"]}
    assert getattr(backend, FILE) is dense


def test_a_file_is_put_back_where_another_was_used_inside() -> None:
    backend = SimpleNamespace(**{FILE: {4: "dense"}})
    metadata = VariantMetadata()
    with metadata.using(backend, Variant.ROUTED):
        routed = getattr(backend, FILE)
        with metadata.using(backend, Variant.DENSE):
            assert getattr(backend, FILE) == {4: "dense"}
        assert getattr(backend, FILE) is routed
    assert getattr(backend, FILE) == {4: "dense"}


def test_the_file_is_that_of_the_backend_which_decodes() -> None:
    inner = SimpleNamespace(**{FILE: {4: "dense"}}, decode_backend="fa2", forward_decode=print)
    backend = SimpleNamespace(decode_backend=inner, prefill_backend=SimpleNamespace())
    with VariantMetadata().using(backend, Variant.ROUTED):
        assert getattr(inner, FILE) == {}
    assert getattr(inner, FILE) == {4: "dense"} and not hasattr(backend, FILE)


def test_a_backend_without_a_file_is_left_alone() -> None:
    backend = SimpleNamespace()
    with VariantMetadata().using(backend, Variant.ROUTED):
        assert not hasattr(backend, FILE)


def test_a_batch_that_no_routed_graph_covers_runs_dense_and_says_so() -> None:
    runner, graphs = captured(4)
    graphs.sizes.discard(4)
    batch = Batch([1, 2])
    replay(runner, graphs, batch, 3)
    assert batch.was_uncovered and runner.replayed == [(Variant.DENSE, (4, Variant.DENSE))] and not batch.evidence


@pytest.mark.parametrize(
    ("sizes", "left_out", "covered"),
    [(set(), set(), True), ({4}, set(), False), ({1}, {4}, False), (set(), {4}, False)],
)
def test_decode_never_runs_routed_without_a_graph_where_graphs_are_captured(
    sizes: set[int], left_out: set[int], covered: bool
) -> None:
    graphs = RoutedGraphs(LAYERS)
    graphs.sizes, graphs.left_out = sizes, left_out
    policy: Any = None
    decoder = RoutedDecoder(SimpleNamespace(layers=()), policy, (), graphs)
    (plan,) = [Batch([1]).plan(torch.zeros(1), torch.zeros(1), None)]
    assert plan is not None
    for decodes in (True, False):
        forward_mode = SimpleNamespace(is_decode=lambda decodes=decodes: decodes)
        assert decoder.covers(plan, SimpleNamespace(forward_mode=forward_mode)) == (covered or not decodes)


def swiglu(width: int) -> Any:
    return SimpleNamespace(w_out=torch.zeros(HIDDEN, width))


@pytest.mark.parametrize("width", [4, 64])
def test_what_a_graph_works_in_is_as_wide_as_the_widest_mlp_or_projector(width: int) -> None:
    layer = SimpleNamespace(
        self_attn=None,
        input_layernorm=SimpleNamespace(weight=torch.zeros(HIDDEN)),
        mlp=SimpleNamespace(
            gate_up_proj=SimpleNamespace(weight=None), down_proj=SimpleNamespace(weight=swiglu(16).w_out)
        ),
    )
    policy: Any = SimpleNamespace(
        capabilities=SimpleNamespace(needs_projector=True), project=None, swiglu=lambda layer: swiglu(width)
    )
    decoder = RoutedDecoder(SimpleNamespace(layers=(layer,)), policy, (0,))
    first = decoder.bounded(torch.zeros(4, HIDDEN))
    assert tuple(first.scratch.hidden.shape) == (4, max(width, 16))
    assert decoder.bounded(torch.zeros(2, HIDDEN)) is first
    assert decoder.bounded(torch.zeros(8, HIDDEN)).scratch.hidden.shape[0] == 8


def test_a_replay_is_handed_its_requests_and_its_evidence_is_a_copy() -> None:
    runner, graphs = captured(4, 2)
    source = CapturedPass(buffers=graphs.allocated(runner))
    first, second = Batch([11, 12, 13], [False, True, False]), Batch([21, 22])
    replay(runner, graphs, first, 3)
    buffers = source.buffers
    assert buffers.request_keys[:3].tolist() == [11, 12, 13] and buffers.force_run[:3].tolist() == [False, True, False]
    buffers.actions.fill_(int(Action.RUN))
    replay(runner, graphs, second, 2)
    assert buffers.request_keys[:2].tolist() == [21, 22] and not buffers.force_run[:2].any()
    assert first.evidence[0].actions.shape == (LAYERS, 3) and not first.evidence[0].actions.any()
    assert second.evidence[0].actions.tolist() == [[int(Action.RUN)] * 2] * LAYERS


def test_rows_in_the_dummy_slot_are_padding_when_a_graph_is_recorded() -> None:
    plan = CapturedPass(buffers=GraphBuffers.allocate(4, LAYERS, "cpu")).plan(
        torch.arange(4), torch.arange(4), SimpleNamespace(out_cache_loc=torch.tensor([7, 0, 9, 0]))
    )
    assert plan.rows.valid.tolist() == [True, False, True, False] and plan.captured is not None


def test_a_policy_that_breaks_down_while_it_is_captured_is_an_error() -> None:
    error = PolicyError("raised", policy="p", hook="route", location="p.py:1", got="x", expected="a result")
    with pytest.raises(PolicyError):
        CapturedPass(buffers=GraphBuffers.allocate(4, LAYERS, "cpu")).recover(lambda plan: torch.zeros(1), error)
