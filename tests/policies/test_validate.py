"""CheckedPolicy names policy, hook, line, got and expected of whatever a hook gets wrong, and lets the rest through."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.policies import broken
from tests.policies.batches import LAYERS, batch, context, router_tensors, stream
from vskipper.action import Action
from vskipper.errors import PolicyError
from vskipper.locate import LONGEST, raised_words
from vskipper.policy import GateMode, PolicyCapabilities, Route, SwiGLU
from vskipper.registry.lookup import BUILT_IN, load_policy
from vskipper.validate.checked import CheckedPolicy, CheckedState, same_bits

FILE = Path(broken.__file__)


def checked(cls: Any) -> CheckedPolicy:
    return CheckedPolicy(cls(context()), "mine")


def begun(policy: CheckedPolicy, rows: int) -> CheckedState:
    return policy.begin(batch(["a"] * rows, range(rows)))


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
    state = begun(wrapped, 6)
    assert torch.equal(wrapped.route(2, x, state).actions, policy.route(2, x, None).actions)
    assert torch.equal(wrapped.project(2, x, state), policy.project(2, x, None))
    assert wrapped.capabilities is policy.capabilities


def test_a_policy_without_project_adds_nothing() -> None:
    run(checked(broken.Fair))
    fair = checked(broken.Fair)
    assert not fair.project(2, stream(2), begun(fair, 2)).any()


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
        (broken.SparseActions, "layer 2, actions", "layout torch.sparse_coo", "layout torch.strided"),
        (broken.SparseProjection, "layer 2, result", "layout torch.sparse_coo", "layout torch.strided"),
        (broken.UnreadableRoute, "layer 2, result cannot be read", "KeyError: 'actions'", "tensors of values"),
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
    hook = "project" if cls in (broken.WrongProjection, broken.SparseProjection) else "route"
    assert (error.policy, error.hook) == ("mine", hook)
    assert error.location == f"{FILE}:{line_in(cls, f'def {hook}')}"
    assert got in error.got
    assert expected in error.expected
    assert str(error).startswith(f"policy mine, hook {hook}: {what} [")


def test_an_error_that_has_no_words_is_one_all_the_same() -> None:
    with pytest.raises(PolicyError) as caught:
        run(checked(broken.RaisesWithoutWords))
    assert caught.value.got == "Mute: a message that raises ZeroDivisionError"


def test_a_long_message_is_cut() -> None:
    assert raised_words(ValueError("x" * 5000)) == f"ValueError: {'x' * LONGEST}..."


def test_padding_rows_may_hold_any_code() -> None:
    policy = checked(broken.UndeclaredAction)
    state = replace(begun(policy, 6), valid=torch.zeros(6, dtype=torch.bool))
    policy.route(2, stream(6), state)


def test_code_4_is_no_action() -> None:
    with pytest.raises(PolicyError, match=r"4 \(no action\)"):
        run(checked(broken.UndeclaredAction), 40)


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
        policy = checked(Late)
        policy.route_mlp(2, stream(3), begun(policy, 3))


@pytest.mark.parametrize("hook", ["begin", "route", "project"])
def test_a_hook_that_leaves_python(hook: str) -> None:
    class Leaves(broken.Fair):
        capabilities = PolicyCapabilities(needs_projector=True)

        def project(self, layer: int, y: Any, state: Any) -> Any:
            return y

    def leave(*arguments: Any) -> None:
        sys.exit(3)

    setattr(Leaves, hook, leave)
    with pytest.raises(PolicyError, match=f"policy mine, hook {hook}: raised.*{__file__}.*got SystemExit: 3"):
        run(checked(Leaves))


class Weighs(broken.Fair):
    """Gate weights 0.5, and one value in row 1."""

    capabilities = PolicyCapabilities(gate_modes=frozenset({GateMode.WEIGHTED}))
    value = 1.0

    def route(self, layer: int, x: Any, state: Any) -> Route:
        weights = torch.full_like(x[:, 0], 0.5)
        weights[1] = self.value
        return Route(actions=super().route(layer, x, state).actions, weights=weights)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.25, 1.5])
def test_gate_weights_outside_0_to_1(value: float) -> None:
    policy: Any = Weighs(context())
    policy.value = value
    weighs = CheckedPolicy(policy, "mine")
    with pytest.raises(PolicyError, match=f"layer 2, weights .*got {value} for row 1, expected from 0 to 1"):
        run(weighs, 3)
    rows = replace(batch(["a"] * 3, range(3)), valid=torch.tensor([True, False, True]))
    assert weighs.route(2, stream(3), weighs.begin(rows)).weights is not None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_gate_weights_at_the_ends(value: float) -> None:
    policy: Any = Weighs(context())
    policy.value = value
    run(CheckedPolicy(policy, "mine"))


@pytest.mark.parametrize("hook", ["begin", "route", "route_mlp", "project"])
def test_a_hook_that_writes_into_its_input(hook: str) -> None:
    class Writes(broken.Fair):
        capabilities = PolicyCapabilities(needs_projector=True)

        def begin(self, batch: Any) -> Any:
            if hook == "begin":
                batch.token_ids.add_(1)

        def route(self, layer: int, x: Any, state: Any) -> Route:
            if hook == "route":
                x[0, 0] = -x[0, 0]
            return super().route(layer, x, state)

        def route_mlp(self, layer: int, y: Any, state: Any) -> Route:
            if hook == "route_mlp":
                y.zero_()
            return super().route(layer, y, state)

        def project(self, layer: int, y: Any, state: Any) -> Any:
            return y.mul_(2) if hook == "project" else y

    policy, x = checked(Writes), stream(3)
    with pytest.raises(PolicyError, match=f"hook {hook}: writes into its input .{__file__}:[1-9]"):
        state = begun(policy, 3)
        policy.route(2, x, state)
        policy.route_mlp(2, x, state)
        policy.project(2, x, state)


def test_bits_are_compared_and_not_values() -> None:
    x = torch.tensor([float("nan"), 0.0])
    assert same_bits(x, x.clone())
    assert not same_bits(x, torch.tensor([float("nan"), -0.0]))
    assert not same_bits(x, x[:, None])


class DecidesAgain(broken.Fair):
    """SKIP_ATTN first; then what `second` says."""

    capabilities = PolicyCapabilities(actions=frozenset(Action))
    second = (0, 2, 1)

    def route(self, layer: int, x: Any, state: Any) -> Route:
        return Route(actions=torch.full_like(x[:, 0], int(Action.SKIP_ATTN), dtype=torch.uint8))

    def route_mlp(self, layer: int, y: Any, state: Any) -> Route:
        return Route(actions=torch.tensor(self.second, dtype=torch.uint8))


def test_the_second_route_may_not_change_the_attention_bit() -> None:
    policy, x = checked(DecidesAgain), stream(3)
    state = begun(policy, 3)
    policy.route(2, x, state)
    words = (
        "hook route_mlp: layer 2, changes the attention bit .*got row 2 runs attention, expected row 2 skips attention"
    )
    with pytest.raises(PolicyError, match=words):
        policy.route_mlp(2, x, state)
    padded = replace(state, valid=torch.tensor([True, True, False]))
    assert policy.route_mlp(2, x, padded).actions.tolist() == [0, 2, 1]
