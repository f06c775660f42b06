"""Where a violation happened, in the words of the contract."""

from __future__ import annotations

from properties.case import ScheduleCase
from properties.property import Subject
from vskipper.action import Action


def place(subject: Subject, case: ScheduleCase, step: int, row: int, layer: int | None = None) -> dict[str, object]:
    """Step, layer, row, request, position, slot and action of one row of a pass."""
    at = case.rows(step)[row]
    facts: dict[str, object] = {"step": step}
    if layer is not None:
        facts["layer"] = layer
    facts |= {"row": row, "request": at.request, "position": at.position, "slot": at.slot}
    if layer is not None:
        facts["action"] = action_at(subject, case, step, row, layer)
    return facts


def action_at(subject: Subject, case: ScheduleCase, step: int, row: int, layer: int) -> str:
    """The forced action's name; `dense` at a layer that is not routed."""
    routed = subject.model.routed_layers
    if layer not in routed or step >= len(case.tapes):
        return "dense"
    return Action(case.tapes[step].actions[routed.index(layer)][row]).name


def rows_with(case: ScheduleCase, step: int, action: Action) -> int:
    """(routed layer, row) pairs of a pass that are forced to `action`."""
    return sum(line.count(int(action)) for line in case.tapes[step].actions)
