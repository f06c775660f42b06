"""SEM-1, SEM-3 and SEM-4 on the model that is certified, with the policy's own routes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis.strategies import SearchStrategy

from properties.batch import Bounds, bounds_of, schedules
from properties.case import ScheduleCase
from properties.core.all_run import all_run_cases
from properties.core.all_run import check as check_all_run
from properties.core.gate import check_route, gates
from properties.core.kv_values import check_kv
from properties.core.policy_promises import declares
from properties.core.sem import check_result
from properties.drive import run, unscaled
from properties.oracle import flexidepth_like, oracle_of
from properties.property import Property, Subject
from properties.row_batch import batch_of
from properties.violation import Violation
from reference.norm import rms_norm
from reference.plan import Chunk
from vskipper.action import ATTENTION_BIT, MLP_BIT
from vskipper.policy import Phase, Route


def _bounds(subject: Subject) -> Bounds:
    """Small, since the oracle runs a real model row by row, twice; two requests, so that a pass has rows to group. The
    policy sees rows of the phases that it declares alone: serving runs the others dense."""
    bounds = bounds_of(subject.model, subject.runtime.capabilities)
    chunks = 1 if Phase.PREFILL in _phases(subject) else 0
    return replace(bounds, requests=(2, 2), chunk=3, chunks=chunks, decodes=1, steps=2, latest_arrival=0)


def _phases(subject: Subject) -> frozenset[Phase]:
    return frozenset(subject.make_policy(subject.model.dtype).capabilities.phases)


def cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return _declared(subject, schedules(_bounds(subject)))


def _all_run_cases(subject: Subject) -> SearchStrategy[ScheduleCase]:
    return _declared(subject, all_run_cases(subject, _bounds(subject)))


def _declared(subject: Subject, drawn: SearchStrategy[ScheduleCase]) -> SearchStrategy[ScheduleCase]:
    """To a policy that declares no decode, every row is one of a prompt."""
    return drawn if Phase.DECODE in _phases(subject) else drawn.map(_prefilled)


def _prefilled(case: ScheduleCase) -> ScheduleCase:
    return replace(case, steps=tuple(replace(step, chunks=tuple(map(_prompt, step.chunks))) for step in case.steps))


def _prompt(chunk: Chunk) -> Chunk:
    return replace(chunk, phase="prefill")


def _unsupported_routes(subject: Subject) -> str | None:
    """A policy is asked again, by itself, what it decided in the runtime."""
    if not subject.runtime.capabilities.hidden_states:
        return "hidden_states"
    return declares("deterministic")(subject)


def check_outputs(subject: Subject, case: ScheduleCase) -> None:
    """The oracle under the routes that the runtime says it took."""
    passes = run(subject, case, forced=False)
    actions = tuple(ran.result.actions for ran in passes)
    answer = oracle_of(subject).follow(case, actions, tuple(ran.result.weights for ran in passes))
    for step, ran in enumerate(passes):
        expected = (len(subject.model.routed_layers), case.steps[step].rows)
        if tuple(ran.result.actions.shape) != expected:
            facts = {"step": step, "got": tuple(ran.result.actions.shape), "expected": expected}
            raise Violation("SEM-1", "routes_not_recorded", facts)
        check_result(subject, replace(case, tapes=()), step, ran.result, answer.truth[step], answer.same[step])
        stored = unscaled(ran, case.layout, subject.model.dtype)
        check_kv(subject, replace(case, tapes=()), step, stored, answer.truth[step], answer.same[step])
        subject.seen["rows"] += case.steps[step].rows
        subject.seen["grouped_rows"] += sum(line.unique().numel() < line.numel() for line in ran.result.actions)
        subject.seen["skipped_rows"] += int((ran.result.actions == 0).sum())


def check_routes(subject: Subject, case: ScheduleCase) -> None:
    """Recorded routes against the gate on the streams that the runtime reports; for another policy than FlexiDepth,
    against the policy's own answer for those streams."""
    config, routed = subject.model.config, subject.model.routed_layers
    policy = subject.make_policy(subject.model.dtype)
    for step, ran in enumerate(run(subject, case, forced=False)):
        hidden = ran.result.hidden
        if hidden is None:
            raise Violation("SEM-4", "no_streams", {"step": step})
        state = policy.begin(batch_of(case.steps[step]))
        for index, layer in enumerate(routed):
            norm = subject.model.tensors[f"model.layers.{layer}.input_layernorm.weight"].to(subject.model.dtype)
            x = rms_norm(hidden[layer], norm, config.rms_norm_eps)
            weights = None if ran.result.weights is None else ran.result.weights[index]
            where: dict[str, object] = {"step": step, "layer": layer}
            taken = Route(actions=ran.result.actions[index], weights=weights)
            if flexidepth_like(subject):
                check_route(subject, taken, gates(subject, layer, x), where)
            else:
                # what a second hook decides follows from a stream that nobody reports
                judged = ATTENTION_BIT if hasattr(policy, "route_mlp") else ATTENTION_BIT | MLP_BIT
                _check_same(taken, policy.route(layer, x, state), judged, where)
            subject.seen["decisions"] += taken.actions.numel()


def _check_same(got: Route, expected: Route, bits: int, where: dict[str, object]) -> None:
    for row, (a, b) in enumerate(zip(got.actions.tolist(), expected.actions.tolist(), strict=True)):
        if a & bits != b & bits:
            raise Violation("SEM-4", "route_differs", where | {"row": row, "got": a, "expected": b})


MODEL_OUTPUTS = Property(
    id="model.outputs",
    clause="SEM-1",
    title="the model under the policy's own routes equals the reference under the same routes",
    cases=cases,
    check=check_outputs,
    counters=("rows", "grouped_rows"),
    compares="margin",
    examples=8,
    scope="model",
    own_routes=True,
)
MODEL_ALL_RUN = Property(
    id="model.all_run_is_dense",
    clause="SEM-3",
    title="the model with all rows forced to RUN is the dense model",
    cases=_all_run_cases,
    check=check_all_run,
    counters=("rows", "dense_without_tape"),
    compares="either",
    examples=6,
    scope="model",
)
MODEL_ROUTES = Property(
    id="model.routes",
    clause="SEM-4",
    title="the routes that the model took are those of its gate",
    cases=cases,
    check=check_routes,
    counters=("decisions",),
    compares="either",
    examples=8,
    scope="model",
    own_routes=True,
    unsupported=_unsupported_routes,
)
