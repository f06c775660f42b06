"""CheckedPolicy names policy, hook, line, got and expected of whatever a hook gets wrong, and lets the rest through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.policies import broken
from tests.policies.batches import LAYERS, batch, context, router_tensors, stream
from vskipper.errors import PolicyError
from vskipper.policy import GateMode, SwiGLU
from vskipper.registry import BUILT_IN, load_policy
from vskipper.validate import CheckedPolicy

FILE = Path(broken.__file__)


def checked(cls: Any) -> CheckedPolicy:
    return CheckedPolicy(cls(context()), "mine")


def run(policy: Any, rows: int = 6) -> None:
    """One pass of every hook."""
    state = policy.begin(batch(["a"] * rows, range(rows)))
    x = stream(rows)
    for layer in LAYERS:
        policy.route(layer, x, state)
        policy.project(layer, x, state)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@pytest.mark.parametrize("mode", list(GateMode))
def test_built_in_policies_pass(name: str, mode: GateMode) -> None:
    policy = load_policy(name, context(tensors=router_tensors(), gate_mode=mode))
    wrapped = CheckedPolicy(policy, name)
    run(wrapped)
    assert hasattr(wrapped, "swiglu") == hasattr(policy, "swiglu")


def test_results_pass_through() -> None:
    policy = load_policy("flexidepth", context(tensors=router_tensors()))
    wrapped, x = CheckedPolicy(policy, "p"), stream(6)
    assert torch.equal(wrapped.route(2, x, None).actions, policy.route(2, x, None).actions)
    assert torch.equal(wrapped.project(2, x, None), policy.project(2, x, None))
    assert wrapped.capabilities is policy.capabilities


def test_a_policy_without_project_adds_nothing() -> None:
    run(checked(broken.Fair))
    assert not checked(broken.Fair).project(2, stream(2), None).any()


def line_in(cls: type, text: str) -> int:
    lines = FILE.read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith(f"class {cls.__name__}(")))
    return next(i + 1 for i in range(start, len(lines)) if text in lines[i])


@pytest.mark.parametrize(
    ("cls", "what", "got", "expected"),
    [
        (broken.WrongShape, "layer 2, actions", "shape [6, 1]", "shape [6]"),
        (broken.WrongDtype, "layer 2, actions", "torch.int64", "torch.uint8"),
        (broken.WrongDevice, "layer 2, actions", "device meta", "device cpu"),
        (broken.NoRoute, "layer 2, result", "Tensor", "Route"),
        (broken.UndeclaredAction, "layer 2, undeclared action", "1 SKIP_MLP", "0 PROJECT_ONLY, 3 RUN"),
        (broken.UndeclaredWeights, "layer 2, weights", "weights", "gate mode hard"),
        (broken.WeightsOfAnotherDtype, "layer 2, weights", "torch.float64", "torch.float32"),
        (broken.WrongProjection, "layer 2, result", "shape [6, 63]", "shape [6, 64]"),
    ],
)
def test_a_wrong_result(cls: Any, what: str, got: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        run(checked(cls))
    error = caught.value
    hook = "project" if cls is broken.WrongProjection else "route"
    assert (error.policy, error.hook) == ("mine", hook)
    assert error.location == f"{FILE}:{line_in(cls, f'def {hook}')}"
    assert got in error.got
    assert expected in error.expected
    assert str(error).startswith(f"policy mine, hook {hook}: {what} [")


def test_code_4_is_no_action() -> None:
    with pytest.raises(PolicyError, match=r"4 \(no action\)"):
        checked(broken.UndeclaredAction).route(2, stream(40), None)


def test_weights_that_are_missing() -> None:
    with pytest.raises(PolicyError, match="got no weights, expected gate mode weighted"):
        run(checked(broken.MissingWeights))


def test_what_a_hook_raises_is_named_by_its_line() -> None:
    with pytest.raises(PolicyError) as caught:
        run(checked(broken.Raises))
    assert caught.value.location == f"{FILE}:{line_in(broken.Raises, 'table[layer]')}"
    assert caught.value.got == "IndexError: list index out of range"


@pytest.mark.parametrize(
    "weights",
    [
        None,
        SwiGLU(w_in=torch.zeros(16, 64), w_out=torch.zeros(64, 7)),
        SwiGLU(w_in=torch.zeros(64, 16).T, w_out=torch.zeros(64, 8)),
    ],
)
def test_swiglu_weights_that_do_not_fit(weights: Any) -> None:
    class Odd(broken.Fair):
        def swiglu(self, layer: int) -> SwiGLU:
            return weights  # type: ignore[no-any-return]

    with pytest.raises(PolicyError, match="hook swiglu"):
        checked(Odd).swiglu(2)


def test_route_mlp_is_checked_too() -> None:
    class Late(broken.Fair):
        def route_mlp(self, layer: int, y: Any, state: Any) -> Any:
            return broken.WrongShape.route(broken.WrongShape(self.context), layer, y, state)

    with pytest.raises(PolicyError, match=r"hook route_mlp: layer 2, actions.*shape \[3, 1\]"):
        checked(Late).route_mlp(2, stream(3), None)
