"""A policy whose every result is checked: what it gets wrong is one PolicyError, where it happens (clause POL-1)."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from vskipper.action import Action
from vskipper.errors import InputError, PolicyError
from vskipper.locate import hook_location, raised_at, source_files
from vskipper.policy import GateMode, PolicyCapabilities, Route, RowBatch, SkipPolicy, SwiGLU


class CheckedPolicy:
    """Wraps `policy`, named `name` in errors; hands on every hook it has, checked. An action's value and the weights of
    a projector are looked at on the CPU only: nothing here synchronises a device."""

    def __init__(self, policy: SkipPolicy, name: str) -> None:
        self.wrapped = policy
        self.name = name
        self.capabilities: PolicyCapabilities = policy.capabilities
        if hasattr(policy, "route_mlp"):
            self.route_mlp = self._route_mlp
        if hasattr(policy, "swiglu"):
            self.swiglu = self._swiglu

    def begin(self, batch: RowBatch) -> Any:
        return self._call("begin", batch)

    def route(self, layer: int, x: Tensor, state: Any) -> Route:
        route = self._call("route", layer, x, state)
        self._check_route("route", route, layer, x)
        return route  # type: ignore[no-any-return]

    def project(self, layer: int, y: Tensor, state: Any) -> Tensor:
        """Zeros where the policy has no projector."""
        if not hasattr(self.wrapped, "project"):
            return torch.zeros_like(y)
        projected = self._call("project", layer, y, state)
        self._check_tensor("project", f"layer {layer}, result", projected, y.dtype, y)
        return projected  # type: ignore[no-any-return]

    def _route_mlp(self, layer: int, y: Tensor, state: Any) -> Route:
        route = self._call("route_mlp", layer, y, state)
        self._check_route("route_mlp", route, layer, y)
        return route  # type: ignore[no-any-return]

    def _swiglu(self, layer: int) -> SwiGLU:
        weights = self._call("swiglu", layer)
        if not isinstance(weights, SwiGLU):
            self._refuse("swiglu", f"layer {layer}, result", type(weights).__name__, "SwiGLU")
        (wide, hidden), out = weights.w_in.shape, tuple(weights.w_out.shape)
        if wide % 2 or out != (hidden, wide // 2):
            self._refuse(
                "swiglu", f"layer {layer}, w_out", f"{out}, w_in {(wide, hidden)}", "[hidden, m], w_in [2 m, hidden]"
            )
        if not (weights.w_in.is_contiguous() and weights.w_out.is_contiguous()):
            self._refuse("swiglu", f"layer {layer}, result", "strided weights", "contiguous weights")
        return weights

    def _call(self, hook: str, *arguments: Any) -> Any:
        try:
            return getattr(self.wrapped, hook)(*arguments)
        except InputError:
            raise
        except Exception as error:
            raise hook_error(self.wrapped, self.name, hook, error) from error

    def _check_route(self, hook: str, route: Any, layer: int, x: Tensor) -> None:
        if not isinstance(route, Route):
            self._refuse(hook, f"layer {layer}, result", type(route).__name__, "Route")
        self._check_tensor(hook, f"layer {layer}, actions", route.actions, torch.uint8, x[:, 0])
        if route.actions.device.type == "cpu":
            self._check_codes(hook, layer, route.actions)
        mode = GateMode.HARD if route.weights is None else GateMode.WEIGHTED
        if mode not in self.capabilities.gate_modes:
            got = "no weights" if route.weights is None else "weights"
            declared = f"gate mode {' or '.join(sorted(self.capabilities.gate_modes))}, as capabilities declare"
            self._refuse(hook, f"layer {layer}, weights", got, declared)
        if route.weights is not None:
            self._check_tensor(hook, f"layer {layer}, weights", route.weights, x.dtype, x[:, 0])

    def _check_codes(self, hook: str, layer: int, actions: Tensor) -> None:
        declared = {int(action) for action in self.capabilities.actions}
        undeclared = sorted(set(actions.tolist()) - declared)
        if undeclared:
            known = {int(action): action.name for action in Action}
            got = ", ".join(f"{code} {known.get(code, '(no action)')}" for code in undeclared)
            expected = ", ".join(f"{code} {known[code]}" for code in sorted(declared))
            self._refuse(hook, f"layer {layer}, undeclared action", got, expected)

    def _check_tensor(self, hook: str, what: str, got: Any, dtype: torch.dtype, like: Tensor) -> None:
        """dtype, shape and device; the latter two those of `like`."""
        if not isinstance(got, Tensor):
            self._refuse(hook, what, type(got).__name__, "Tensor")
        if got.dtype != dtype:
            self._refuse(hook, what, got.dtype, dtype)
        if got.shape != like.shape:
            self._refuse(hook, what, f"shape {list(got.shape)}", f"shape {list(like.shape)}")
        if got.device != like.device:
            self._refuse(hook, what, f"device {got.device}", f"device {like.device}")

    def _refuse(self, hook: str, what: str, got: object, expected: object) -> NoReturn:
        place = hook_location(self.wrapped, hook)
        raise PolicyError(what, policy=self.name, hook=hook, location=place, got=got, expected=expected)


def hook_error(policy: SkipPolicy, name: str, hook: str, error: Exception) -> PolicyError:
    """What a hook raised, as the PolicyError that names the policy's own line."""
    return PolicyError(
        "raised",
        policy=name,
        hook=hook,
        location=raised_at(error.__traceback__, source_files(policy), hook_location(policy, hook)),
        got=f"{type(error).__name__}: {error}",
        expected="a result",
    )
