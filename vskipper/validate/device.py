"""What a policy may not do in a pass, seen without a GPU (clause POL-2): make the host wait for the device, or keep
Python state from step to step."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from vskipper.locate import source_files
from vskipper.policy import RowBatch, SkipPolicy
from vskipper.validate.host_waits import watch_host
from vskipper.validate.one_pass import called, changed, hooks, named, unwrapped
from vskipper.validate.python_state import changed_state, python_state


def find_synchronisation(
    policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int], name: str | None = None
) -> None:
    """Run one pass of the policy's hooks; raises PolicyError at the line that makes the host wait for the device: a
    value read (`.item()`, `if tensor:`, `.cpu()`), a shape that depends on values (`nonzero`, `x[mask]`), Python data
    copied over (`torch.tensor(..., device=...)`).

    x: [rows, hidden], taken for the norms' output at every one of the routed `layers`.
    """
    policy = unwrapped(policy)
    name = name or type(policy).__name__
    for hook, call in hooks(policy, batch, x, layers):
        with watch_host(source_files(policy)) as waits, named(policy, name, hook, waits):
            call()


def find_python_state(
    policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int], name: str | None = None
) -> None:
    """Run the same pass twice; raises PolicyError naming the hook that changed an attribute of the policy, a variable
    of its module or what its hooks close over in the second one, after the first had every chance to fill caches."""
    policy = unwrapped(policy)
    name = name or type(policy).__name__
    for _ in called(policy, name, batch, x, layers):
        pass
    state = python_state(policy)
    for hook in called(policy, name, batch, x, layers):
        after = python_state(policy)
        change = changed_state(state, after)
        if change is not None:
            expected = "attributes and variables that two equal passes leave alone"
            raise changed(policy, name, hook, "Python state changes from step to step", change, expected)
        state = after
