"""The route tape of one forward pass: written layer by layer in order, complete or an error."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vskipper.policy import Route


class TapeError(RuntimeError):
    """The tape was written out of order, twice, with the wrong shape, or not to its end."""


class RouteTape:
    """actions: uint8 [routed layers, rows] on the device; row r of line i is what row r did at routed layer i.

    weights: w [routed layers, rows] where keep_weights asked for it and the gate mode is weighted, else None.
    actions given: a tensor of that shape to write into, for a captured graph whose replays write it again.
    """

    def __init__(
        self,
        layers: Sequence[int],
        rows: int,
        device: torch.device | str,
        *,
        keep_weights: bool = False,
        actions: Tensor | None = None,
    ) -> None:
        self.layers = tuple(layers)
        if actions is None:
            actions = torch.zeros(len(self.layers), rows, dtype=torch.uint8, device=device)
        self.actions = actions
        self.weights: Tensor | None = None
        self._keep_weights = keep_weights
        self._written = 0

    def write(self, layer: int, route: Route) -> None:
        """Record the route of `layer`; raises TapeError unless it is the next routed layer."""
        expected = self.layers[self._written] if self._written < len(self.layers) else "no further layer"
        if layer != expected:
            raise TapeError(f"route tape: got layer {layer}, expected {expected}")
        if route.actions.shape != self.actions.shape[1:] or route.actions.dtype != torch.uint8:
            raise TapeError(
                f"route tape, layer {layer}: got {route.actions.dtype} {tuple(route.actions.shape)}, "
                f"expected torch.uint8 {tuple(self.actions.shape[1:])}"
            )
        self.actions[self._written].copy_(route.actions)
        if self._keep_weights and route.weights is not None:
            if self.weights is None:
                self.weights = torch.ones_like(self.actions, dtype=route.weights.dtype)
            self.weights[self._written].copy_(route.weights)
        self._written += 1

    def finish(self) -> Tensor:
        """The complete actions; raises TapeError when a routed layer did not write."""
        if self._written != len(self.layers):
            missing = self.layers[self._written :]
            raise TapeError(f"route tape: got {self._written} layers, expected {len(self.layers)}; missing {missing}")
        return self.actions
