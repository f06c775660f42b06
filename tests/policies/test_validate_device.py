"""Waiting for the device and keeping Python state are found at the policy's own line; what is allowed is not."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.policies.batches import LAYERS, batch, context, router_tensors, stream
from tests.policies.broken import Fair
from vskipper.errors import PolicyError
from vskipper.policy import GateMode, PolicyCapabilities, Route
from vskipper.registry.lookup import BUILT_IN, load_policy
from vskipper.validate.checked import CheckedPolicy
from vskipper.validate.device import find_python_state, find_synchronisation

ROWS = 6


def run(check: Callable[..., None], policy: Any, layers: tuple[int, ...] = LAYERS) -> None:
    check(policy, batch(["a"] * ROWS, range(ROWS)), stream(ROWS), layers, "mine")


def numbered(x: Tensor, layer: int) -> Tensor:
    """Somebody's helper, in the same file."""
    return x[: int(x.argmax())]


WAITS: dict[str, Callable[[Tensor], object]] = {
    ".item()": lambda x: x[0, 0].item(),
    ".tolist()": lambda x: x.tolist(),
    ".numpy()": lambda x: x.numpy(),
    "tensor as a numpy array": lambda x: np.asarray(x),
    ".cpu()": lambda x: x.cpu(),
    '.to("cpu")': lambda x: x.to("cpu"),
    "bool(tensor)": lambda x: x if (x > 0).any() else None,
    "int(tensor)": lambda x: int(x[0, 0]),
    "float(tensor)": lambda x: float(x[0, 0]),
    "tensor as a Python index": lambda x: range(x.argmax()),
    "value in tensor": lambda x: 3 in x,
    "repr(tensor)": lambda x: repr(x),
    "format(tensor)": lambda x: f"{x[0, 0]}",
    "operator aten.nonzero.default": lambda x: x.nonzero(),
    "operator aten.index.Tensor": lambda x: x[x[:, 0] > 0],
    "operator aten.index_put_.default": lambda x: x.clone().index_put_((x[:, 0] > -9,), torch.zeros_like(x)),
    "operator aten.masked_select.default": lambda x: x.masked_select(x > 0),
    "operator aten._unique2.default": lambda x: torch.unique(x),
    "operator aten.equal.default": lambda x: torch.equal(x, x),
    "operator aten.allclose.default": lambda x: torch.allclose(x, x),
    "operator aten.bincount.default": lambda x: torch.bincount(x.argmax(1)),
    "operator aten.repeat_interleave.Tensor": lambda x: torch.repeat_interleave(x, x.argmax(1), dim=0),
    "operator aten._local_scalar_dense.default": lambda x: torch.full((2,), x[0, 0]),  # type: ignore[call-overload]
    "torch.tensor(Python data)": lambda x: torch.tensor(3, device=x.device),
    "torch.as_tensor(Python data)": lambda x: torch.as_tensor([1, 2]),
    ".new_tensor(Python data)": lambda x: x.new_tensor([1.0]),
    "torch.cuda.synchronize()": lambda x: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("call", sorted(WAITS))
@pytest.mark.parametrize("hook", ["begin", "route", "project"])
def test_a_wait_is_found_where_it_stands(call: str, hook: str) -> None:
    wait = WAITS[call]

    class Waits(Fair):
        capabilities = PolicyCapabilities(needs_projector=True)

        def begin(self, batch: Any) -> None:
            if hook == "begin":
                wait(batch.positions[:, None])

        def route(self, layer: int, x: Tensor, state: Any) -> Route:
            if hook == "route":
                wait(x)
            return super().route(layer, x, state)

        def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
            if hook == "project":
                wait(y)
            return y

    with pytest.raises(PolicyError) as caught:
        run(find_synchronisation, Waits(context()))
    error = caught.value
    assert (error.policy, error.hook, error.got) == ("mine", hook, call)
    # the lambda lies in the policy's file, so its line is the innermost of the policy's own
    assert error.location == f"{__file__}:{wait.__code__.co_firstlineno}"


def test_a_wait_in_a_helper_is_named_there() -> None:
    class Helped(Fair):
        def route(self, layer: int, x: Tensor, state: Any) -> Route:
            return Route(actions=numbered(x, layer))

    with pytest.raises(PolicyError) as caught:
        run(find_synchronisation, Helped(context()))
    assert caught.value.location == f"{__file__}:{inspect.getsourcelines(numbered)[1] + 2}"


def test_a_wait_that_is_caught_is_found_all_the_same() -> None:
    class Hides(Fair):
        def route(self, layer: int, x: Tensor, state: Any) -> Route:
            with suppress(Exception):
                x[0, 0].item()
            return super().route(layer, x, state)

    with pytest.raises(PolicyError, match=r"got \.item\(\)"):
        run(find_synchronisation, Hides(context()))


def test_a_wait_at_one_layer_only() -> None:
    class Late(Fair):
        def route_mlp(self, layer: int, y: Tensor, state: Any) -> Route:
            return Route(actions=torch.zeros(int(y.shape[0] if layer < 7 else y[0, 0])))

    with pytest.raises(PolicyError, match="hook route_mlp: host synchronisation"):
        run(find_synchronisation, Late(context()))
    run(find_synchronisation, Late(context()), LAYERS[:3])


class Lawful(Fair):
    """What a policy may well do."""

    capabilities = PolicyCapabilities(gate_modes=frozenset({GateMode.WEIGHTED}), needs_projector=True)

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.scratch = torch.zeros(64, device=context.device)
        self.table = torch.tensor([3, 0], dtype=torch.uint8, device=context.device)
        self.layer_names = {layer: f"layer {layer}" for layer in context.routed_layers}

    def begin(self, batch: Any) -> dict[str, Tensor]:
        return {
            "even": batch.positions.to(x_device := batch.valid.device) % 2,
            "order": torch.arange(6, device=x_device),
        }

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        assert self.layer_names[layer]
        if x.shape[0] == 0 or len(x) == 0 or x.dtype == torch.int8 or x.is_cuda:
            raise AssertionError("unreachable")
        self.scratch.copy_(x[0])
        actions = self.table[state["even"]]
        actions = torch.where(x.norm(dim=-1) > 0.5, actions, actions.new_full((), 3))
        actions = actions.masked_fill(x[:, 1] > 2, 0).index_select(0, state["order"])[state["order"]]
        actions[x[:, 2] > 2] = 0
        actions[:1] = 3
        ranked = torch.topk(x[:, 0], k=2).indices.sort().values
        weights = torch.sigmoid(x.float().mean(-1)).to(x.dtype) * torch.tensor(0.5) + 0 * ranked.sum()
        return Route(actions=actions.to(torch.uint8).contiguous(), weights=weights.clamp(0, 1))

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        halves = torch.cat(list(y.chunk(2, dim=-1)), dim=-1)
        return torch.nn.functional.layer_norm(halves, (64,)) * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1)


@pytest.mark.parametrize("check", [find_synchronisation, find_python_state])
def test_lawful_policies_pass(check: Callable[..., None]) -> None:
    run(check, Lawful(context()))
    run(check, CheckedPolicy(Lawful(context()), "lawful"))
    for name in BUILT_IN:
        for mode in GateMode:
            run(check, load_policy(name, context(tensors=router_tensors(), gate_mode=mode)))


def test_other_failures_keep_their_own_words() -> None:
    class Fails(Fair):
        def begin(self, batch: Any) -> None:
            raise ValueError("too many rows")

    with pytest.raises(PolicyError, match=r"hook begin: raised .*ValueError: too many rows"):
        run(find_synchronisation, Fails(context()))


def test_the_modes_are_gone_afterwards() -> None:
    synchronize = torch.cuda.synchronize
    with pytest.raises(PolicyError):
        run(
            find_synchronisation, type("W", (Fair,), {"begin": lambda self, batch: batch.valid.any().item()})(context())
        )
    assert torch.zeros(1).item() == 0
    assert torch.cuda.synchronize is synchronize


class Counts(Fair):
    steps = 0

    def begin(self, batch: Any) -> None:
        self.steps += 1


class Appends(Fair):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.seen: dict[str, list[int]] = {"layers": []}

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        self.seen["layers"].append(layer)
        return super().route(layer, x, state)


class Rebinds(Fair):
    kept: Tensor | None = None

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        self.kept = x.clone()
        return super().route(layer, x, state)


class Queues(Fair):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.last: deque[int] = deque(maxlen=2)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        self.last.append(layer)
        return super().route(layer, x, state)


class CountsInItsClass(Fair):
    steps: ClassVar[list[int]] = [0]

    def begin(self, batch: Any) -> None:
        self.steps[0] += 1


@pytest.mark.parametrize(
    ("cls", "hook", "got"),
    [
        (Counts, "begin", ".steps: 1 became 2"),
        (Appends, "route", ".seen['layers'][4]: absent became 2"),
        (Queues, "route", ".last[0]: 4 became 7"),
        (Rebinds, "route", ".kept: Tensor at"),
        (CountsInItsClass, "begin", ".CountsInItsClass.steps[0]: 1 became 2"),
    ],
)
def test_python_state_is_found(cls: Any, hook: str, got: str) -> None:
    with pytest.raises(PolicyError) as caught:
        run(find_python_state, cls(context()))
    assert caught.value.hook == hook
    assert caught.value.got.startswith(got)
    assert caught.value.location.startswith(f"{Path(__file__)}:")


def test_a_cache_that_the_first_pass_fills_is_allowed() -> None:
    class Caches(Fair):
        def begin(self, batch: Any) -> None:
            if not hasattr(self, "table"):
                self.table = torch.zeros(4)

    run(find_python_state, Caches(context()))


def test_what_a_hook_raises_is_named_by_both_searches() -> None:
    class Leaves(Fair):
        def route(self, layer: int, x: Tensor, state: Any) -> Route:
            raise SystemExit(3)

    for search in (find_synchronisation, find_python_state):
        with pytest.raises(PolicyError, match=f"policy mine, hook route: raised .{__file__}:[1-9].*SystemExit: 3"):
            run(search, Leaves(context()))
