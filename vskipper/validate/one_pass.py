"""The hooks of one pass in the order in which a runtime calls them, and what goes wrong in one as a PolicyError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from vskipper.errors import PolicyError
from vskipper.locate import hook_location
from vskipper.policy import RowBatch, SkipPolicy
from vskipper.validate.checked import CheckedPolicy, hook_error
from vskipper.validate.host_waits import HostWait

Pass = Iterator[tuple[str, Callable[[], Any]]]


def unwrapped(policy: SkipPolicy) -> SkipPolicy:
    return policy.wrapped if isinstance(policy, CheckedPolicy) else policy


def hooks(policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int]) -> Pass:
    """Every hook of one pass, as (name, call). x: [rows, hidden], taken for the norms' output at every one of the
    routed `layers`."""
    state: list[Any] = []
    yield "begin", lambda: state.append(policy.begin(batch))
    for layer in layers:
        yield "route", partial(policy.route, layer, x, state[0])
        route_mlp = getattr(policy, "route_mlp", None)
        if route_mlp is not None:
            yield "route_mlp", partial(route_mlp, layer, x, state[0])
        if policy.capabilities.needs_projector:
            yield "project", partial(policy.project, layer, x, state[0])


def called(policy: SkipPolicy, name: str, batch: RowBatch, x: Tensor, layers: Sequence[int]) -> Iterator[str]:
    """Run one pass; gives the name of each hook just after it has returned."""
    for hook, call in hooks(policy, batch, x, layers):
        with named(policy, name, hook, []):
            call()
        yield hook


@contextmanager
def named(policy: SkipPolicy, name: str, hook: str, waits: list[HostWait]) -> Iterator[None]:
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


def changed(policy: SkipPolicy, name: str, hook: str, what: str, got: str, expected: str) -> PolicyError:
    """The hook has changed what it may not."""
    return PolicyError(what, policy=name, hook=hook, location=hook_location(policy, hook), got=got, expected=expected)
