"""A routed forward pass through the engine's own modules: what stands in for the model's layer loop."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from vskipper.execution.branches import Branches
from vskipper.execution.dense_layer import dense_layer
from vskipper.execution.packed import PackedBranches
from vskipper.execution.routed_layer import RoutedLayer
from vskipper.execution.routed_pass import RoutedPass, open_pass
from vskipper.policy import SkipPolicy
from vskipper.sglang.attention import EngineAttention
from vskipper.sglang.layer import EngineLayer
from vskipper.sglang.passes import PassPlan


class RoutedDecoder:
    """model: the engine's decoder (embed_tokens, layers, norm). policy may be replaced between passes."""

    def __init__(self, model: Any, policy: SkipPolicy, routed_layers: tuple[int, ...]) -> None:
        self._model = model
        self.policy = policy
        self.routed_layers = routed_layers
        self.layers = tuple(EngineLayer(layer) for layer in model.layers)
        self.branches: Branches = PackedBranches()

    def run(self, input_ids: Tensor, forward_batch: Any, input_embeds: Tensor | None, plan: PassPlan) -> Tensor:
        """The final norm's output [rows, hidden]; the evidence goes to plan.done."""
        hidden = self._model.embed_tokens(input_ids) if input_embeds is None else input_embeds
        attention = EngineAttention(self.layers, forward_batch)
        run = open_pass(
            self.policy,
            self.routed_layers,
            plan.rows,
            attention,
            force_run=plan.force_run,
            keep_weights=plan.keep_weights,
        )
        hidden, residual = self._layers(hidden, run)
        run.tape.finish()
        plan.done(run)
        normed: Tensor = self._model.norm(hidden, residual)[0]
        return normed

    def _layers(self, hidden: Tensor, run: RoutedPass) -> tuple[Tensor, Tensor]:
        index = {layer: i for i, layer in enumerate(self.routed_layers)}
        residual: Tensor | None = None
        for number, modules in enumerate(self.layers):
            if number in index:
                routed = RoutedLayer(
                    layer=number, index=index[number], modules=modules, policy=self.policy, branches=self.branches
                )
                hidden, residual = routed(hidden, residual, run)
            else:
                hidden, residual = dense_layer(number, modules, hidden, residual, run.positions, run.attention)
        assert residual is not None
        return hidden, residual
