"""SEM-4 for FlexiDepth: the gate of the policy alone, and what its weights do to the branches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from properties import margin
from properties.batch import bounds_of, schedules
from properties.case import RowsCase, ScheduleCase
from properties.compare import Envelope, row_errors
from properties.core.policy_cases import rows_cases
from properties.core.policy_rows import batch_of_rows, streams
from properties.drive import run
from properties.facts import place
from properties.oracle import Pass, flexidepth_like, oracle_of
from properties.property import Property, Subject
from properties.runtime import StepResult
from properties.tape import eighths_of
from properties.violation import Violation
from reference import flexidepth
from reference.plan import TapePlan
from vskipper.action import Action
from vskipper.policy import Route

RULE = Envelope()


def not_flexidepth(subject: Subject) -> str | None:
    return None if flexidepth_like(subject) else "flexidepth_router"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """w of rows by the reference: T and R, and how far from T a runtime's may lie."""

    truth: Tensor
    same: Tensor

    @property
    def bound(self) -> float:
        return RULE.bound(self.same[:, None], self.truth[:, None])


def gates(subject: Subject, layer: int, x: Tensor) -> Gates:
    """The reference's w for x [rows, hidden], the output of the layer's input norm."""
    eps = subject.model.config.rms_norm_eps
    truth, same = (
        torch.stack([flexidepth.gate(oracle_of(subject).tensors(dtype), layer, row.to(dtype), eps) for row in x])
        for dtype in (torch.float64, subject.model.dtype)
    )
    return Gates(truth=truth, same=same)


def check_route(subject: Subject, route: Route, gate: Gates, where: dict[str, object]) -> None:
    """Actions equal the reference's outside the margin, weights lie within it; flips inside are counted."""
    actions = route.actions.tolist()
    for row, (action, w) in enumerate(zip(actions, gate.truth.tolist(), strict=True)):
        expected = Action.RUN if w > flexidepth.THRESHOLD else Action.PROJECT_ONLY
        facts = where | {"row": row, "w": f"{w:.9g}", "got": Action(action).name, "expected": expected.name}
        if action not in (Action.RUN, Action.PROJECT_ONLY):
            raise Violation("SEM-4", "route_differs", facts)
        if action != expected:
            if abs(w - flexidepth.THRESHOLD) > gate.bound:
                raise Violation("SEM-4", "route_differs", facts | {"margin": f"{gate.bound:.3g}"})
            subject.seen["flips_inside_margin"] += 1
        subject.seen["run_rows"] += expected == Action.RUN
        subject.seen["project_rows"] += expected == Action.PROJECT_ONLY
    if route.weights is not None:
        error = row_errors(route.weights[:, None], gate.truth[:, None])
        margin.note(float(error.max()) / gate.bound)
        if not bool((error <= gate.bound).all()):
            row = int(error.argmax())
            facts = {"row": row, "got": float(route.weights[row]), "expected": float(gate.truth[row])}
            raise Violation("SEM-4", "wrong_weight", where | facts)


def check_routes(subject: Subject, case: RowsCase) -> None:
    policy = subject.make_policy(subject.model.dtype)
    state = policy.begin(batch_of_rows(subject, case, range(case.rows)))
    for layer in subject.model.routed_layers:
        x = streams(subject, case, layer, range(case.rows))
        check_route(subject, policy.route(layer, x, state), gates(subject, layer, x), {"layer": layer})


def check_threshold(subject: Subject, case: RowsCase) -> None:
    """A row of zeros has w = 0.5 exactly, whatever the router's weights: it does not run."""
    policy = subject.make_policy(subject.model.dtype)
    state = policy.begin(batch_of_rows(subject, case, range(case.rows)))
    planted = range(0, case.rows, 2)
    for layer in subject.model.routed_layers:
        x = streams(subject, case, layer, range(case.rows))
        x[list(planted)] = 0.0
        route: Route = policy.route(layer, x, state)
        for row in planted:
            if route.actions[row] != Action.PROJECT_ONLY:
                facts = {"layer": layer, "row": row, "w": 0.5, "got": Action(int(route.actions[row])).name}
                raise Violation("SEM-4", "threshold_not_strict", facts)
            subject.seen["planted"] += 1


@st.composite
def mode_cases(draw: DrawFn, subject: Subject) -> ScheduleCase:
    """Forced routes with weights that are neither 0 nor 1 in most rows."""
    bounds = replace(bounds_of(subject.model, subject.runtime.capabilities), steps=1, latest_arrival=0)
    case = draw(schedules(bounds))
    spread = draw(st.integers(1, 7))
    tapes = tuple(TapePlan(actions=t.actions, eighths=eighths_of(t.actions, spread)) for t in case.tapes)
    return replace(case, tapes=tapes)


def check_mode(subject: Subject, case: ScheduleCase) -> None:
    """Both gate modes give what the reference gives in that mode; they are not the same thing."""
    oracle = oracle_of(subject)
    answers = oracle.answer(case), oracle.answer(case.hard())
    for mode, (own, other) in (("weighted", answers), ("hard", answers[::-1])):
        forced = case if mode == "weighted" else case.hard()
        result = run(subject, forced)[0].result
        _check_outputs(subject, forced, mode, result, (own.truth[0], own.same[0], other.truth[0]))


def _check_outputs(
    subject: Subject, case: ScheduleCase, mode: str, result: StepResult, passes: tuple[Pass, Pass, Pass]
) -> None:
    """passes: T and R of this mode, T of the other."""
    rule = Envelope.of_layers(subject.model.config.num_hidden_layers)
    for layer in range(1, subject.model.config.num_hidden_layers + 1):
        got, true, same, other = _stream(result, layer), *(_of(p, layer, result.hidden is None) for p in passes)
        bound = rule.bound(same, true)
        error, ignored = row_errors(got, true), row_errors(got, other)
        margin.note(float(error.max()) / bound)
        for row in torch.nonzero(~(error <= bound)).flatten().tolist():
            reason = "gate_mode_ignored" if float(ignored[row]) <= bound else "wrong_scale"
            facts: dict[str, object] = {"mode": mode, "err": f"{float(error[row]):.3g}", "allowed": f"{bound:.3g}"}
            where = {"chunk": row} if result.hidden is None else place(subject, case, 0, row, layer - 1)
            raise Violation("SEM-4", reason, where | facts)
        subject.seen["rows_where_modes_differ"] += int((row_errors(other, true) > bound).sum())


def _stream(result: StepResult, layer: int) -> Tensor:
    return result.logits if result.hidden is None else result.hidden[layer]


def _of(ran: Pass, layer: int, logits: bool) -> Tensor:
    return ran.result.logits if logits else ran.result.hidden[layer]


def _rows(subject: Subject) -> SearchStrategy[Any]:
    return rows_cases(subject)


GATE_ROUTES = Property(
    id="gate.routes",
    clause="SEM-4",
    title="the policy's gate equals the reference's outside the margin",
    cases=_rows,
    check=check_routes,
    counters=("run_rows", "project_rows"),
    compares="margin",
    examples=60,
    unsupported=not_flexidepth,
)
GATE_THRESHOLD = Property(
    id="gate.threshold",
    clause="SEM-4",
    title="a row whose w is exactly 0.5 is projected",
    cases=_rows,
    check=check_threshold,
    counters=("planted",),
    examples=30,
    unsupported=not_flexidepth,
)
GATE_MODE = Property(
    id="gate.mode",
    clause="SEM-4",
    title="weighted and hard gate modes scale the branches as the reference does",
    cases=mode_cases,
    check=check_mode,
    counters=("rows_where_modes_differ",),
    compares="margin",
    examples=40,
)
