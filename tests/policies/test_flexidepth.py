"""FlexiDepth against its equations, written a second time, row by row."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.policies.batches import LAYERS, batch, context, router_tensors, stream
from vskipper.errors import InputError
from vskipper.policies.flexidepth import FlexiDepth
from vskipper.policies.random_skip import RandomSkip
from vskipper.policies.static_depth import StaticDepth
from vskipper.policy import GateMode

MODES = list(GateMode)


def gate(tensors: dict[str, Tensor], layer: int, x: Tensor, eps: float) -> float:
    """w of one row in Python floats."""

    def times(name: str, v: list[float]) -> list[float]:
        matrix = tensors[f"model.layers.{layer}.router.router_{name}.weight"].double().tolist()
        return [sum(a * b for a, b in zip(line, v, strict=True)) for line in matrix]

    z = times("enc", x.double().tolist())
    scale = 1 / math.sqrt(sum(v * v for v in z) / len(z) + eps)
    norm = tensors[f"model.layers.{layer}.router.router_norm.weight"].double().tolist()
    hidden = [math.tanh(v * scale * g) for v, g in zip(z, norm, strict=True)]
    return 1 / (1 + math.exp(-times("head", times("dec", hidden))[0]))


@pytest.mark.parametrize("mode", MODES)
def test_gate(mode: GateMode) -> None:
    tensors, x = router_tensors(), stream(40)
    policy = FlexiDepth(context(tensors=tensors, gate_mode=mode))
    actions: set[int] = set()
    for layer in LAYERS:
        route = policy.route(layer, x, None)
        w = torch.tensor([gate(tensors, layer, row, 1e-5) for row in x])
        assert (w - 0.5).abs().min() > 1e-4, "no row may lie so near the threshold that rounding decides"
        assert route.actions.tolist() == [3 if value > 0.5 else 0 for value in w]
        actions |= set(route.actions.tolist())
        if mode == GateMode.HARD:
            assert route.weights is None
        else:
            assert route.weights is not None
            torch.testing.assert_close(route.weights, w, rtol=1e-4, atol=1e-5)
    assert actions == {0, 3}
    assert policy.capabilities.gate_modes == {mode}


def test_threshold_is_strict() -> None:
    """A router whose head is zero gives w = 0.5 exactly: every row skips."""
    tensors = router_tensors()
    for layer in LAYERS:
        tensors[f"model.layers.{layer}.router.router_head.weight"].zero_()
    route = FlexiDepth(context(tensors=tensors)).route(2, stream(5), None)
    assert route.weights is not None
    assert (route.weights == 0.5).all()
    assert not route.actions.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_projector_is_its_equation_and_its_swiglu(dtype: torch.dtype) -> None:
    """down_proj widens, up_proj leads back: exchanged they would not even fit."""
    tensors, y = router_tensors(), stream(6, dtype)
    policy = FlexiDepth(context(tensors=tensors, dtype=dtype))
    name = "model.layers.3.router_proj."
    wide, back = (tensors[f"{name}{part}_proj.weight"].to(dtype).double() for part in ("gate", "up"))
    down = tensors[f"{name}down_proj.weight"].to(dtype).double()
    gated = y.double() @ wide.T
    expected = (gated * torch.sigmoid(gated) * (y.double() @ down.T)) @ back.T
    tolerance = 20 * torch.finfo(dtype).eps * float(expected.abs().max())
    assert (policy.project(3, y, None).double() - expected).abs().max() <= tolerance
    weights = policy.swiglu(3)
    assert torch.equal(weights.w_in, torch.cat((wide, down)).to(dtype))
    assert torch.equal(weights.w_out, back.to(dtype))
    assert weights.w_in.is_contiguous()
    assert weights.w_out.is_contiguous()


def test_bfloat16_weights_and_actions() -> None:
    policy = FlexiDepth(context(tensors=router_tensors(), dtype=torch.bfloat16))
    route = policy.route(2, stream(40, torch.bfloat16), None)
    assert route.weights is not None
    assert (route.weights.dtype, route.actions.dtype) == (torch.bfloat16, torch.uint8)
    assert route.actions.tolist() == [3 if w > 0.5 else 0 for w in route.weights.tolist()]


def test_nan_rows_are_declared_actions() -> None:
    x = stream(4)
    x[1] = float("nan")
    actions = FlexiDepth(context(tensors=router_tensors())).route(2, x, None).actions.tolist()
    assert actions[1] == 0


@pytest.mark.parametrize("name", ["router.router_head", "router_proj.up_proj"])
def test_missing_tensor(name: str) -> None:
    tensors = router_tensors()
    del tensors[f"model.layers.4.{name}.weight"]
    with pytest.raises(InputError, match=rf"model\.layers\.4\.{name}\.weight"):
        FlexiDepth(context(tensors=tensors))


@pytest.mark.parametrize("made", [RandomSkip, StaticDepth])
def test_weightless_policies_with_the_checkpoints_projector(made: Any) -> None:
    tensors, y = router_tensors(), stream(4)
    built = context(tensors=tensors)
    policy, flexidepth = made(built, projector="checkpoint"), FlexiDepth(built)
    state = policy.begin(batch(["a"] * 4, range(4)))
    assert policy.capabilities.needs_projector
    assert torch.equal(policy.project(3, y, state), flexidepth.project(3, y, None))
    assert torch.equal(policy.swiglu(3).w_in, flexidepth.swiglu(3).w_in)
    assert policy.route(3, y, state).weights is None
