"""What a policy declares, held against the types and the checkpoint that a runtime relies on."""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.locate import location_of, raised_at, raised_words, source_files
from vskipper.policy import GateMode, Phase, PolicyCapabilities, PolicyContext, SkipPolicy, Timing

_SETS: dict[str, type[Enum]] = {"actions": Action, "phases": Phase, "gate_modes": GateMode}
_SWITCHES = (
    "needs_router",
    "needs_projector",
    "deterministic",
    "batch_invariant",
    "chunk_invariant",
    "prefix_determined",
    "tolerates_dense_prefix",
)


def checked_capabilities(spec: str, policy: SkipPolicy, context: PolicyContext) -> PolicyCapabilities:
    """Raises PolicyError that names the field, or says that there are no capabilities or what reading them raised."""
    place = location_of(type(policy))
    declared = _read(spec, policy, place)
    if not isinstance(declared, PolicyCapabilities):
        got = "nothing" if declared is None else type(declared).__name__
        raise _error(spec, place, "missing", got, "PolicyCapabilities")
    wrong = _wrong_field(declared)
    if wrong is not None:
        name, expected = wrong
        raise _error(spec, place, f"field {name}", repr(getattr(declared, name)), expected)
    if declared.needs_router and not any(".router." in name for name in context.tensors):
        raise _error(spec, place, "field needs_router", "True, no router tensors", "a checkpoint with router tensors")
    return declared


def _read(spec: str, policy: SkipPolicy, place: str) -> Any:
    """The attribute; None where there is none, which a property that raises AttributeError is not."""
    try:
        return policy.capabilities
    except (Exception, SystemExit) as error:
        absent = inspect.getattr_static(policy, "capabilities", None) is None
        if absent and isinstance(error, AttributeError):
            return None
        location = raised_at(error.__traceback__, source_files(policy), place)
        raise _error(spec, location, "raised", raised_words(error), "PolicyCapabilities") from error


def _wrong_field(declared: PolicyCapabilities) -> tuple[str, str] | None:
    """The first field of the wrong type, and what it should be."""
    for name, kind in _SETS.items():
        found = getattr(declared, name)
        if not isinstance(found, frozenset | set) or not found or any(type(item) is not kind for item in found):
            return name, f"a set of {kind.__name__}, not empty"
    if Action.RUN not in declared.actions:
        return "actions", "RUN among them"
    if not isinstance(declared.timing, Timing):
        return "timing", "a Timing"
    for name in _SWITCHES:
        if not isinstance(getattr(declared, name), bool):
            return name, "True or False"
    size = declared.request_state_bytes
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        return "request_state_bytes", "an int from 0"
    return None


def _error(spec: str, location: str, what: str, got: str, expected: str) -> PolicyError:
    return PolicyError(what, policy=spec, hook="capabilities", location=location, got=got, expected=expected)
