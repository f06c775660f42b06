"""Where a pass gets its routes from: a forced tape or a policy, both asked layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from reference.action import ACTIONS
from reference.plan import TapePlan


class Decide(Protocol):
    """A policy as the oracle sees it."""

    def __call__(self, layer: int, x: Tensor, /) -> tuple[Sequence[int], Tensor | None]:
        """x: [rows, hidden], the layer's input norm of every valid row, in plan order.

        Returns an action code for each row, and w [rows], or None in gate mode hard.
        """


def forced(tape: TapePlan, routed_layers: Sequence[int], rows: int, dtype: torch.dtype) -> Decide:
    """Play `tape` back. Raises ValueError unless it holds one line for each routed layer and one entry for each row."""
    for name, lines in (("actions", tape.actions), ("eighths", tape.eighths)):
        if lines is not None and [len(line) for line in lines] != [rows] * len(routed_layers):
            got = [len(line) for line in lines]
            raise ValueError(f"tape, {name}: got lines of {got}, expected {len(routed_layers)} lines of {rows}")
    eighths = tape.eighths
    if eighths is not None and not all(0 <= eighth <= 8 for line in eighths for eighth in line):
        raise ValueError(f"tape, eighths: got {eighths}, expected integers 0 to 8")

    def decide(layer: int, x: Tensor, /) -> tuple[Sequence[int], Tensor | None]:
        index = routed_layers.index(layer)
        return tape.actions[index], None if eighths is None else torch.tensor(eighths[index], dtype=dtype) / 8

    return decide


def ask(decide: Decide, layer: int, x: Tensor) -> tuple[tuple[int, ...], Tensor | None]:
    """One layer's decision, checked: as many actions and weights as rows, known codes, weights in x's dtype."""
    actions, weights = decide(layer, x)
    if len(actions) != len(x) or any(action not in ACTIONS for action in actions):
        raise ValueError(f"routes, layer {layer}, actions: got {list(actions)}, expected {len(x)} codes of {ACTIONS}")
    if weights is not None and (weights.shape != x.shape[:1] or weights.dtype != x.dtype):
        got = f"{weights.dtype} {tuple(weights.shape)}"
        raise ValueError(f"routes, layer {layer}, weights: got {got}, expected {x.dtype} ({len(x)},)")
    return tuple(int(action) for action in actions), weights
