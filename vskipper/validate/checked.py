"""A policy whose every result is checked: what it gets wrong is one PolicyError, where it happens (clause POL-1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

import torch
from torch import Tensor

from vskipper.action import ATTENTION_BIT, Action
from vskipper.errors import PolicyError
from vskipper.locate import hook_location, raised_at, raised_words, source_files
from vskipper.policy import GateMode, PolicyCapabilities, Route, RowBatch, SkipPolicy, SwiGLU

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedState:
    """A pass: the policy's own state, the rows that count (valid [rows]), the tensors of its RowBatch, and by layer
    whether each one's attention runs, as route decided."""

    inner: Any
    valid: Tensor
    given: list[Tensor]
    attention: dict[int, Tensor] = field(default_factory=dict)


class CheckedPolicy:
    """Wraps `policy`, named `name` in errors; hands on every hook it has, checked. Values (actions, gate weights, what
    an input holds) are looked at on the CPU only: nothing here synchronises a device; values=False leaves them out."""

    def __init__(self, policy: SkipPolicy, name: str, *, values: bool = True) -> None:
        self.wrapped = policy
        self.name = name
        self._values = values
        self.capabilities: PolicyCapabilities = policy.capabilities
        if hasattr(policy, "route_mlp"):
            self.route_mlp = self._route_mlp
        if hasattr(policy, "swiglu"):
            self.swiglu = self._swiglu

    def begin(self, batch: RowBatch) -> CheckedState:
        valid = batch.valid.clone()
        inputs = [getattr(batch, item.name) for item in fields(batch)]
        return CheckedState(inner=self._call_unwritten("begin", inputs, batch), valid=valid, given=inputs)

    def route(self, layer: int, x: Tensor, state: CheckedState) -> Route:
        route: Route = self._call_unwritten("route", [x, *state.given], layer, x, state.inner)
        with self._looking_at("route", layer):
            self._check_route("route", route, layer, x, state)
            state.attention[layer] = route.actions & ATTENTION_BIT
        return route

    def project(self, layer: int, y: Tensor, state: CheckedState) -> Tensor:
        """Zeros where the policy has no projector."""
        if not hasattr(self.wrapped, "project"):
            return torch.zeros_like(y)
        projected: Tensor = self._call_unwritten("project", [y, *state.given], layer, y, state.inner)
        with self._looking_at("project", layer):
            self._check_tensor("project", f"layer {layer}, result", projected, y.dtype, y)
        return projected

    def _route_mlp(self, layer: int, y: Tensor, state: CheckedState) -> Route:
        route: Route = self._call_unwritten("route_mlp", [y, *state.given], layer, y, state.inner)
        with self._looking_at("route_mlp", layer):
            self._check_route("route_mlp", route, layer, y, state)
            self._check_attention_bit(layer, state.attention[layer], route.actions & ATTENTION_BIT, state.valid)
        return route

    def _check_attention_bit(self, layer: int, first: Tensor, second: Tensor, valid: Tensor) -> None:
        if not (self._values and first.device.type == "cpu"):
            return
        for row in ((first != second) & valid).nonzero().flatten().tolist()[:1]:
            words = ("skips", "runs")
            got, expected = (f"row {row} {words[int(bits[row])]} attention" for bits in (second, first))
            self._refuse("route_mlp", f"layer {layer}, changes the attention bit", got, f"{expected}, as route said")

    def _swiglu(self, layer: int) -> SwiGLU:
        weights: SwiGLU = self._call("swiglu", layer)
        with self._looking_at("swiglu", layer):
            self._check_swiglu(layer, weights)
        return weights

    def _check_swiglu(self, layer: int, weights: Any) -> None:
        if not isinstance(weights, SwiGLU):
            self._refuse("swiglu", f"layer {layer}, result", type(weights).__name__, "SwiGLU")
        (wide, hidden), out = weights.w_in.shape, tuple(weights.w_out.shape)
        if wide % 2 or out != (hidden, wide // 2):
            self._refuse(
                "swiglu", f"layer {layer}, w_out", f"{out}, w_in {(wide, hidden)}", "[hidden, m], w_in [2 m, hidden]"
            )
        if not (weights.w_in.is_contiguous() and weights.w_out.is_contiguous()):
            self._refuse("swiglu", f"layer {layer}, result", "strided weights", "contiguous weights")

    @contextmanager
    def _looking_at(self, hook: str, layer: int) -> Iterator[None]:
        """What a result raises when it is looked at is the policy's error too."""
        try:
            yield
        except PolicyError:
            raise
        except Exception as error:
            raise PolicyError(
                f"layer {layer}, result cannot be read",
                policy=self.name,
                hook=hook,
                location=hook_location(self.wrapped, hook),
                got=raised_words(error),
                expected="tensors of values",
            ) from error

    def _call(self, hook: str, *arguments: Any) -> Any:
        try:
            return getattr(self.wrapped, hook)(*arguments)
        except (Exception, SystemExit) as error:
            raise hook_error(self.wrapped, self.name, hook, error) from error

    def _call_unwritten(self, hook: str, inputs: list[Tensor], *arguments: Any) -> Any:
        """Call a hook that may read `inputs` but not write into them."""
        looked_at = [tensor for tensor in inputs if self._values and tensor.device.type == "cpu"]
        before = [tensor.clone() for tensor in looked_at]
        result = self._call(hook, *arguments)
        for old, new in zip(before, looked_at, strict=True):
            if not same_bits(old, new):
                self._refuse(hook, "writes into its input", "other values than it was given", "an input left as it was")
        return result

    def _check_route(self, hook: str, route: Any, layer: int, x: Tensor, state: CheckedState) -> None:
        if not isinstance(route, Route):
            self._refuse(hook, f"layer {layer}, result", type(route).__name__, "Route")
        self._check_tensor(hook, f"layer {layer}, actions", route.actions, torch.uint8, x[:, 0])
        if self._values and route.actions.device.type == "cpu":
            self._check_codes(hook, layer, route.actions[state.valid])
        mode = GateMode.HARD if route.weights is None else GateMode.WEIGHTED
        if mode not in self.capabilities.gate_modes:
            got = "no weights" if route.weights is None else "weights"
            declared = f"gate mode {' or '.join(sorted(self.capabilities.gate_modes))}, as capabilities declare"
            self._refuse(hook, f"layer {layer}, weights", got, declared)
        if route.weights is not None:
            self._check_tensor(hook, f"layer {layer}, weights", route.weights, x.dtype, x[:, 0])
            if self._values and x.device.type == "cpu":
                self._check_weights(hook, layer, route.weights, state.valid)

    def _check_weights(self, hook: str, layer: int, weights: Tensor, valid: Tensor) -> None:
        # written so that NaN, which compares as neither, is outside
        outside = ~((weights >= 0) & (weights <= 1)) & valid
        for row in outside.nonzero().flatten().tolist()[:1]:
            got = f"{float(weights[row])} for row {row}"
            self._refuse(hook, f"layer {layer}, weights", got, "from 0 to 1 for every valid row")

    def _check_codes(self, hook: str, layer: int, actions: Tensor) -> None:
        declared = {int(action) for action in self.capabilities.actions}
        undeclared = sorted(set(actions.tolist()) - declared)
        if undeclared:
            known = {int(action): action.name for action in Action}
            got = ", ".join(f"{code} {known.get(code, '(no action)')}" for code in undeclared)
            expected = ", ".join(f"{code} {known[code]}" for code in sorted(declared))
            self._refuse(hook, f"layer {layer}, undeclared action", got, expected)

    def _check_tensor(self, hook: str, what: str, got: Any, dtype: torch.dtype, like: Tensor) -> None:
        """dtype, shape, layout and device; shape and device those of `like`."""
        if not isinstance(got, Tensor):
            self._refuse(hook, what, type(got).__name__, "Tensor")
        if got.dtype != dtype:
            self._refuse(hook, what, got.dtype, dtype)
        if got.shape != like.shape:
            self._refuse(hook, what, f"shape {list(got.shape)}", f"shape {list(like.shape)}")
        if got.layout != torch.strided:
            self._refuse(hook, what, f"layout {got.layout}", f"layout {torch.strided}")
        if got.device != like.device:
            self._refuse(hook, what, f"device {got.device}", f"device {like.device}")

    def _refuse(self, hook: str, what: str, got: object, expected: object) -> NoReturn:
        place = hook_location(self.wrapped, hook)
        raise PolicyError(what, policy=self.name, hook=hook, location=place, got=got, expected=expected)


def same_bits(one: Tensor, two: Tensor) -> bool:
    """Whether shape, dtype and every bit are equal; NaN equals itself."""
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    return torch.equal(bits_of(one), bits_of(two))


def bits_of(tensor: Tensor) -> Tensor:
    """The same memory as integers."""
    return tensor.view(_BITS[tensor.element_size()])


def hook_error(policy: SkipPolicy, name: str, hook: str, error: BaseException) -> PolicyError:
    """What a hook raised, as the PolicyError that names the policy's own line."""
    return PolicyError(
        "raised",
        policy=name,
        hook=hook,
        location=raised_at(error.__traceback__, source_files(policy), hook_location(policy, hook)),
        got=raised_words(error),
        expected="a result",
    )
