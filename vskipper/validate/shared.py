"""What a policy shares with others and leaves alone in a pass: the process it runs in (clause POL-2) and the tensors it
was built with (clause POL-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from vskipper.policy import RowBatch, SkipPolicy
from vskipper.validate.checked import bits_of
from vskipper.validate.one_pass import called, changed, unwrapped
from vskipper.validate.process_state import generators, kept_process, settings, start_pass
from vskipper.validate.python_state import changed_state


def find_process_state(
    policy: SkipPolicy, batch: RowBatch, x: Tensor, layers: Sequence[int], name: str | None = None
) -> None:
    """Run a pass from each of two states of the process; raises PolicyError naming the hook that changes a mode or a
    default, or after which a generator of random numbers is in one state whatever it was in before."""
    policy = unwrapped(policy)
    name = name or type(policy).__name__
    states: list[list[tuple[str, Mapping[str, object]]]] = []
    what = "process-wide state changes"
    with kept_process():
        for number in (0, 1):
            start_pass(number)
            before = settings()
            states.append([])
            for hook in called(policy, name, batch, x, layers):
                change = changed_state(before, settings())
                if change is not None:
                    raise changed(policy, name, hook, what, change, "a process that is left as it was")
                states[number].append((hook, generators()))
    for (hook, one), (_, two) in zip(*states, strict=True):
        for generator in one:
            if one[generator] == two[generator]:
                got = f"{generator}: set, to one state from two"
                raise changed(policy, name, hook, what, got, "generators that are drawn from or left alone")


def find_written_tensors(
    policy: SkipPolicy,
    batch: RowBatch,
    x: Tensor,
    layers: Sequence[int],
    given: Mapping[str, Tensor],
    name: str | None = None,
) -> None:
    """Run one pass; raises PolicyError naming the hook that writes into one of the tensors that the policy was given
    when it was built. They are left as they were."""
    policy = unwrapped(policy)
    name = name or type(policy).__name__
    own = {key: tensor.clone() for key, tensor in given.items()}
    before = _digests(given)
    try:
        for hook in called(policy, name, batch, x, layers):
            change = changed_state(before, _digests(given))
            if change is not None:
                what = "writes into the tensors it was built with"
                raise changed(policy, name, hook, what, change.split(":")[0], "the model's tensors left as they were")
    finally:
        if _digests(given) != before:
            with torch.no_grad():
                for key, tensor in given.items():
                    tensor.copy_(own[key])


def _digests(tensors: Mapping[str, Tensor]) -> dict[str, object]:
    """Sums of the bits: a pass over a few hundred megabytes, of which there may be one a hook."""
    return {key: int(bits_of(tensor).sum(dtype=torch.int64)) for key, tensor in tensors.items()}
