"""What the executor is given: a layer's modules, and the engine's attention and KV writer."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from vskipper.policy import SwiGLU


class LayerModules(Protocol):
    """One decoder layer, taken apart. The residual stream is a pair (hidden, residual) whose sum it is; a norm folds
    the pair, as serving engines do. Matrices have no bias: a zero row stays zero through o_proj."""

    @property
    def hidden_size(self) -> int: ...

    def input_norm(self, hidden: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """(x, h): h = hidden + residual [rows, hidden], x its norm."""

    def qkv(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [n, heads, head dim], k and v [n, kv heads, head dim], after q_norm, k_norm and RoPE where there are."""

    def o_proj(self, attention: Tensor) -> Tensor:
        """[n, heads * head dim] to [n, hidden]."""

    def post_norm(self, hidden: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """(y, h1): h1 = hidden + residual, y its norm."""

    def mlp(self, y: Tensor) -> Tensor:
        """The layer's MLP on any number of rows."""

    @property
    def mlp_weights(self) -> SwiGLU:
        """The MLP's weights, for kernels that run it in place of `mlp`."""


class Attention(Protocol):
    """The engine's side of one pass: it knows every row's row-to-memory maps."""

    def write_kv(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Write k and v [rows, kv heads, head dim] of every row to its slot (clauses KV-1..KV-4)."""

    def attend_all(self, layer: int, q: Tensor) -> Tensor:
        """Attention of every row, as at a layer that is not routed: q [rows, heads, head dim] to
        [rows, heads * head dim]; finite for rows that are not valid."""

    def attend_rows(self, layer: int, q: Tensor, rows: Tensor) -> Tensor:
        """Attention of the rows numbered in rows int64 [n], of q [rows, heads, head dim]; the result is packed,
        [n, heads * head dim]."""

    def attend_masked(self, layer: int, q: Tensor, actions: Tensor, valid: Tensor) -> Tensor:
        """Attention of q [rows, heads, head dim]; a row that is not valid or whose action lacks the attention bit comes
        out as exact zeros and reads no KV. Result [rows, heads * head dim]."""
