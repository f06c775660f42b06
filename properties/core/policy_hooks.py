"""POL-1: every hook returns what the policy declares, and a row is projected alike in any company."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis.strategies import SearchStrategy
from torch import Tensor

from properties.case import RowsCase
from properties.compare import row_errors
from properties.core.policy_cases import note_width, rows_cases, spread
from properties.core.policy_rows import TIE, batch_of_rows, streams
from properties.property import Property, Subject
from properties.violation import Violation
from vskipper.errors import PolicyError
from vskipper.locate import hook_location
from vskipper.policy import Route
from vskipper.validate.checked import CheckedPolicy

# rows that are projected alone: of a wide pass some
ALONE = 12
_REASONS = (
    ("undeclared action", "undeclared_action"),
    ("host synchronisation", "host_synchronisation"),
    ("Python state", "python_state_changes"),
    ("process-wide state", "process_state_changes"),
    ("tensors it was built with", "given_tensors_written"),
    ("raised", "hook_raised"),
    ("writes into its input", "input_written"),
    ("attention bit", "attention_bit_changed"),
    ("weights", "wrong_weights"),
    ("actions", "wrong_actions"),
    ("result", "wrong_result"),
)
_ON_DEVICE = ("host_synchronisation", "python_state_changes", "process_state_changes")


def violation_of_policy(error: PolicyError) -> Violation:
    """The policy's own error as a violation that names policy, hook, line, got and expected."""
    reason = next((reason for words, reason in _REASONS if words in error.what), "policy_error")
    clause = "POL-2" if reason in _ON_DEVICE else "POL-1"
    facts: dict[str, object] = {"policy": error.policy, "hook": error.hook, "location": error.location}
    return Violation(clause, reason, facts | {"got": error.got, "expected": error.expected})


def _cases(subject: Subject) -> SearchStrategy[RowsCase]:
    return rows_cases(subject)


def check_declared(subject: Subject, case: RowsCase) -> None:
    """One pass of every hook under the validator."""
    policy = CheckedPolicy(subject.make_policy(subject.model.dtype), subject.policy_name)
    rows = range(case.rows)
    try:
        state = policy.begin(batch_of_rows(subject, case, rows, case.padding))
        for layer in subject.model.routed_layers:
            _check_layer(subject, case, policy, layer, state)
        note_width(subject, case)
    except PolicyError as error:
        raise violation_of_policy(error) from error


def _check_layer(subject: Subject, case: RowsCase, policy: CheckedPolicy, layer: int, state: Any) -> None:
    rows = range(case.rows)
    x = streams(subject, case, layer, rows, case.padding)
    route: Route = policy.route(layer, x, state)
    second = getattr(policy, "route_mlp", None)
    if second is not None:
        route = second(layer, x, state)
    subject.seen["decisions"] += route.actions.numel()
    # with whatever rows beside its own, padding among them: a kernel of fixed size gathers that many
    projected = policy.project(layer, streams(subject, case, layer + 256, rows, case.padding), state)[: case.rows]
    y = streams(subject, case, layer + 256, rows)
    _check_rows(subject, case, policy, layer, y, state, projected)
    swiglu = getattr(policy, "swiglu", None)
    if swiglu is not None:
        weights = swiglu(layer)
        gate, up = (y.double() @ weights.w_in.double().T).chunk(2, -1)
        expected = (torch.nn.functional.silu(gate) * up) @ weights.w_out.double().T
        error = row_errors(projected, expected)
        if not bool((error <= TIE * torch.finfo(y.dtype).eps).all()):
            facts = {
                "policy": subject.policy_name,
                "hook": "swiglu",
                "layer": layer,
                "err": f"{float(error.max()):.3g}",
            }
            raise Violation("POL-1", "swiglu_differs", facts)


def _check_rows(
    subject: Subject, case: RowsCase, policy: CheckedPolicy, layer: int, y: Tensor, state: Any, projected: Tensor
) -> None:
    """A row is projected alike whichever rows are projected with it, and whichever are in its pass: a runtime groups
    rows by what they do, and hands over each group alone."""
    subject.seen["rows_in_company"] += case.rows if case.rows > 1 else 0
    for row in spread(range(case.rows), ALONE):
        own = policy.begin(batch_of_rows(subject, case, (row,)))
        for among, held in (("those of its pass", state), ("none", own)):
            alone = policy.project(layer, y[row : row + 1], held)
            error = row_errors(alone, projected[row : row + 1])
            if not bool((error <= TIE * torch.finfo(y.dtype).eps).all()):
                facts = {
                    "policy": subject.policy_name,
                    "hook": "project",
                    "location": hook_location(policy.wrapped, "project"),
                    "layer": layer,
                    "row": row,
                    "rows_in_state": among,
                    "err": f"{float(error.max()):.3g}",
                }
                raise Violation("POL-1", "projector_depends_on_batch", facts)


def _projects(subject: Subject) -> bool:
    return bool(subject.make_policy(subject.model.dtype).capabilities.needs_projector)


POLICY_DECLARED = Property(
    id="policy.declared",
    clause="POL-1",
    title="every hook returns what the policy declares, and a row is projected alike in any company",
    cases=_cases,
    check=check_declared,
    counters=("decisions", "rows_in_company", "wide_passes"),
    only_where={"rows_in_company": _projects},
    examples=40,
    scope="policy",
)
