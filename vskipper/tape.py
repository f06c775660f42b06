"""The route tape of one forward pass: written layer by layer in order, complete or an error."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class TapeError(RuntimeError):
    """The tape was written out of order, twice, with the wrong shape, or not to its end."""


class RouteTape:
    """Actions uint8 [routed layers, rows] on the device; row r of line i is what row r did at routed layer i."""

    def __init__(self, layers: Sequence[int], rows: int, device: torch.device | str) -> None:
        self.layers = tuple(layers)
        self.actions = torch.zeros(len(self.layers), rows, dtype=torch.uint8, device=device)
        self._written = 0

    def write(self, layer: int, actions: Tensor) -> None:
        """Record actions uint8 [rows] of `layer`; raises TapeError unless it is the next routed layer."""
        if self._written == len(self.layers) or self.layers[self._written] != layer:
            expected = self.layers[self._written] if self._written < len(self.layers) else "no further layer"
            raise TapeError(f"route tape: got layer {layer}, expected {expected}")
        if actions.shape != self.actions.shape[1:] or actions.dtype != torch.uint8:
            raise TapeError(
                f"route tape, layer {layer}: got {actions.dtype} {tuple(actions.shape)}, "
                f"expected torch.uint8 {tuple(self.actions.shape[1:])}"
            )
        self.actions[self._written].copy_(actions)
        self._written += 1

    def rewind(self) -> None:
        """Start the next pass on the same buffer."""
        self._written = 0

    def finish(self) -> Tensor:
        """The complete tape; raises TapeError when a routed layer did not write."""
        if self._written != len(self.layers):
            missing = self.layers[self._written :]
            raise TapeError(f"route tape: got {self._written} layers, expected {len(self.layers)}; missing {missing}")
        return self.actions
