"""A layer at which nothing is decided, run from the same parts as a routed one: every row runs all of it."""

from __future__ import annotations

from torch import Tensor

from vskipper.execution.protocols import Attention, LayerModules


def dense_layer(
    layer: int, modules: LayerModules, hidden: Tensor, residual: Tensor | None, positions: Tensor, attention: Attention
) -> tuple[Tensor, Tensor]:
    """The pair (hidden, residual) [rows, hidden] entering layer `layer` to the pair leaving it."""
    x, h = modules.input_norm(hidden, residual)
    q, k, v = modules.qkv(x, positions)
    attention.write_kv(layer, k, v)
    y, h1 = modules.post_norm(modules.o_proj(attention.attend_all(layer, q)), h)
    return modules.mlp(y), h1
