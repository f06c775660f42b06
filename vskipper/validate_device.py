"""What a policy may not do in a pass, seen without a GPU (clause POL-2): make the host wait for the device, or keep
Python state from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from vskipper.errors import PolicyError
from vskipper.host_waits import HostWait, watch_host
from vskipper.locate import hook_location, source_files
from vskipper.policy import RowBatch, SkipPolicy
from vskipper.python_state import changed_state, python_state
from vskipper.validate import CheckedPolicy, hook_error

Pass = Iterator[tuple[str, Callable[[], Any]]]


def find_synchronisation(
    policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int], name: str | None = None
) -> None:
    """Run one pass of the policy's hooks; raises PolicyError at the line that makes the host wait for the device: a
    value read (`.item()`, `if tensor:`, `.cpu()`), a shape that depends on values (`nonzero`, `x[mask]`), Python data
    copied over (`torch.tensor(..., device=...)`).

    x: [rows, hidden], taken for the norms' output at every one of the routed `layers`.
    """
    policy = _unwrapped(policy)
    name = name or type(policy).__name__
    for hook, call in _hooks(policy, batch, x, layers):
        with watch_host(source_files(policy)) as waits, _named(policy, name, hook, waits):
            call()


def find_python_state(
    policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int], name: str | None = None
) -> None:
    """Run the same pass twice; raises PolicyError naming the hook that changed an attribute of the policy in the second
    one, after the first had every chance to fill caches."""
    policy = _unwrapped(policy)
    name = name or type(policy).__name__
    for hook, call in _hooks(policy, batch, x, layers):
        with _named(policy, name, hook, []):
            call()
    state = python_state(policy)
    for hook, call in _hooks(policy, batch, x, layers):
        with _named(policy, name, hook, []):
            call()
        after = python_state(policy)
        change = changed_state(state, after)
        if change is not None:
            raise PolicyError(
                "Python state changes from step to step",
                policy=name,
                hook=hook,
                location=hook_location(policy, hook),
                got=change,
                expected="attributes that two equal passes leave alone",
            )
        state = after


def _unwrapped(policy: SkipPolicy) -> SkipPolicy:
    return policy.wrapped if isinstance(policy, CheckedPolicy) else policy


def _hooks(policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int]) -> Pass:
    """Every hook of one pass in the order a runtime calls them, as (name, call)."""
    state: list[Any] = []
    yield "begin", lambda: state.append(policy.begin(batch))
    for layer in layers:
        yield "route", partial(policy.route, layer, x, state[0])
        route_mlp = getattr(policy, "route_mlp", None)
        if route_mlp is not None:
            yield "route_mlp", partial(route_mlp, layer, x, state[0])
        if policy.capabilities.needs_projector:
            yield "project", partial(policy.project, layer, x, state[0])


@contextmanager
def _named(policy: SkipPolicy, name: str, hook: str, waits: list[HostWait]) -> Iterator[None]:
    """Turn what the hook did into a PolicyError: its first wait, even one that it caught; else what it raised."""
    failure: BaseException | None = None
    try:
        yield
    except (Exception, SystemExit) as error:
        failure = error
    if waits:
        raise PolicyError(
            "host synchronisation",
            policy=name,
            hook=hook,
            location=waits[0].location,
            got=waits[0].call,
            expected="work that stays on the device",
        )
    if failure is not None:
        raise hook_error(policy, name, hook, failure) from failure
