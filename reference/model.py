"""The decoder, row by row: K/V of every row first, then each row alone through attention, MLP or projector.

Llama and Qwen3, dense or mixed-depth, over a paged pool; the truth that every runtime is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
from reference.routes import Decide, ask, forced
from reference.rows import Row, rows_of
from reference.weights import load

Project = Callable[[int, Tensor], Tensor]


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
    Raises ValueError for a missing or misshaped tensor and for routed layers that the model does not have.
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
        if list(self.routed_layers) != sorted(set(self.routed_layers) & set(range(config.num_hidden_layers))):
            expected = f"ascending layer numbers of 0 to {config.num_hidden_layers - 1}"
            raise ValueError(f"routed layers: got {self.routed_layers}, expected {expected}")
        self._weights = load(config, tensors, dtype)
        self._frequencies = inverse_frequencies(config, dtype)

    @torch.no_grad()
    def step(
        self, pool: PagedPool, plan: StepPlan, routes: TapePlan | Decide | None = None, ledger: Ledger | None = None
    ) -> ReferenceResult:
        """Run one pass. routes: a forced tape, a policy, or None for the dense model; padding rows are left out.

        Writes the pool and notes every write in `ledger`. Raises ValueError for a plan, tape or decision that it
        cannot run.
        """
        rows = rows_of(plan, pool.layout)
        decide = forced(routes, self.routed_layers, len(rows), self.dtype) if isinstance(routes, TapePlan) else routes
        h = self._embed(rows)
        hidden, actions, weights = [h], [], []
        for layer in range(self.config.num_hidden_layers):
            # one row at a time, so that no row's sum depends on how many others there are
            x = torch.stack([self._norm(layer, "input_layernorm", row) for row in h])
            taken, w = (RUN,) * len(rows), None
            if decide is not None and layer in self.routed_layers:
                taken, w = ask(decide, layer, x)
                actions.append(taken)
                weights.append(w)
            self._write_kv(layer, x, rows, taken, pool, ledger)
            scales = [None] * len(rows) if w is None else list(w)
            h = torch.stack([self._row(layer, *each, pool) for each in zip(h, x, rows, taken, scales, strict=True)])
            hidden.append(h)
        return ReferenceResult(
            logits=self._logits(h, rows), hidden=torch.stack(hidden), actions=tuple(actions), weights=_stack(weights)
        )

    def _row(
        self, layer: int, h: Tensor, x: Tensor, row: Row, action: int, w: Tensor | None, pool: PagedPool
    ) -> Tensor:
        """One row through one layer: h and x [hidden] to the residual stream [hidden] that leaves it."""
        if attention_runs(action):
            q = self._heads(layer, "q", x, row.position)
            k, v = pool.read(layer, row.context)
            h = h + self._linear(layer, "self_attn.o_proj", attend(q, k, v).flatten())
        y = self._norm(layer, "post_attention_layernorm", h)
        if action == PROJECT_ONLY:
            if self.project is None:
                return h
            branch = self.project(layer, y)
            return h + (branch if w is None else (1 - w) * branch)
        if not mlp_runs(action):
            return h
        branch = self._mlp(layer, y)
        return h + (w * branch if action == RUN and w is not None else branch)

    def _write_kv(
        self,
        layer: int,
        x: Tensor,
        rows: Sequence[Row],
        actions: Sequence[int],
        pool: PagedPool,
        ledger: Ledger | None,
    ) -> None:
        for x_row, row, action in zip(x, rows, actions, strict=True):
            k = self._heads(layer, "k", x_row, row.position)
            v = self._linear(layer, "self_attn.v_proj", x_row).view(k.shape)
            pool.write(layer, row.slot, k, v)
            if ledger is not None:
                ledger.record(request=row.request, position=row.position, layer=layer, slot=row.slot, action=action)

    def _heads(self, layer: int, name: str, x: Tensor, position: int) -> Tensor:
        """Queries or keys of one row, [heads, head_dim]: projection, Qwen3's norm of each head, then RoPE."""
        heads = self._linear(layer, f"self_attn.{name}_proj", x).view(-1, self.config.head_dim)
        if self.config.architecture == "qwen3":
            heads = self._norm(layer, f"self_attn.{name}_norm", heads)
        return rotate(heads, position, self._frequencies)

    def _mlp(self, layer: int, y: Tensor) -> Tensor:
        gated = silu(self._linear(layer, "mlp.gate_proj", y)) * self._linear(layer, "mlp.up_proj", y)
        return self._linear(layer, "mlp.down_proj", gated)

    def _linear(self, layer: int, name: str, x: Tensor) -> Tensor:
        return self._weights[f"model.layers.{layer}.{name}.weight"] @ x

    def _norm(self, layer: int, name: str, x: Tensor) -> Tensor:
        return rms_norm(x, self._weights[f"model.layers.{layer}.{name}.weight"], self.config.rms_norm_eps)

    def _embed(self, rows: Sequence[Row]) -> Tensor:
        vocab = self.config.vocab_size
        for row in rows:
            if not 0 <= row.token < vocab:
                where = f"request {row.request}, position {row.position}"
                raise ValueError(f"plan, {where}, token: got {row.token}, expected 0 to {vocab - 1}")
        return self._weights["model.embed_tokens.weight"][[row.token for row in rows]]

    def _logits(self, h: Tensor, rows: Sequence[Row]) -> Tensor:
        head = "model.embed_tokens.weight" if self.config.tie_word_embeddings else "lm_head.weight"
        last = [h[index] for index, row in enumerate(rows) if row.last]
        norm = self._weights["model.norm.weight"]
        return torch.stack([self._weights[head] @ rms_norm(each, norm, self.config.rms_norm_eps) for each in last])


def _stack(weights: Sequence[Tensor | None]) -> Tensor | None:
    given = [w for w in weights if w is not None]
    if given and len(given) != len(weights):
        raise ValueError(
            f"routes, weights: got them at {len(given)} routed layers, expected all {len(weights)} or none"
        )
    return torch.stack(given) if given else None
