"""The decoder, row by row: K/V of every row first, then each row alone through attention, MLP or projector.

Llama and Qwen3, dense or mixed-depth, over a paged pool; the truth that every runtime is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import silu

from reference.action import PROJECT_ONLY, RUN, attention_runs, mlp_runs
from reference.attention import attend
from reference.config import ModelConfig
from reference.ledger import Ledger
from reference.norm import rms_norm
from reference.plan import StepPlan, TapePlan
from reference.pool import PagedPool
from reference.rope import inverse_frequencies, rotate
from reference.rows import Row, check_tape, rows_of

Project = Callable[[int, Tensor], Tensor]


class Decide(Protocol):
    """A policy as the oracle sees it: actions of all rows at one routed layer, and w [rows] or None for hard."""

    def __call__(self, layer: int, x: Tensor, /) -> tuple[Sequence[int], Tensor | None]:
        """x: [rows, hidden], the layer's input norm of every valid row, in plan order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceResult:
    """One pass, valid rows only, in plan order.

    logits: [chunks, vocab], of each chunk's last row. hidden: [layers + 1, rows, hidden], the residual stream entering
    each layer and leaving the last. actions: [routed layers][rows]. weights: [routed layers, rows], or None in gate
    mode hard and in a dense pass, whose actions are empty.
    """

    logits: Tensor
    hidden: Tensor
    actions: tuple[tuple[int, ...], ...]
    weights: Tensor | None


class ReferenceModel:
    """tensors: by Hugging Face name, cast to `dtype` once. routed_layers: ascending layer numbers.

    project(layer, y [hidden]) -> [hidden]: the projector, unscaled; None adds nothing to a PROJECT_ONLY row.
    Raises ValueError for a missing or misshaped tensor and for routed layers the model does not have.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, Tensor],
        routed_layers: Sequence[int],
        *,
        dtype: torch.dtype,
        project: Project | None = None,
    ) -> None:
        self.config = config
        self.dtype = dtype
        self.routed_layers = tuple(routed_layers)
        self.project = project
        self.weights = load(config, tensors, dtype)
        self.frequencies = inverse_frequencies(config, dtype)
        known = sorted(set(self.routed_layers) & set(range(config.num_hidden_layers)))
        if list(self.routed_layers) != known:
            expected = f"ascending layer numbers below {config.num_hidden_layers}"
            raise ValueError(f"routed layers: got {self.routed_layers}, expected {expected}")
