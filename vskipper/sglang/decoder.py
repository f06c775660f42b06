"""A routed forward pass through the engine's own modules: what stands in for the model's layer loop."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from vskipper.execution.bounded import BoundedBranches
from vskipper.execution.branches import Branches
from vskipper.execution.dense_layer import dense_layer
from vskipper.execution.packed import PackedBranches
from vskipper.execution.projector import projector_of
from vskipper.execution.routed_layer import RoutedLayer
from vskipper.execution.routed_pass import RoutedPass, open_pass
from vskipper.kernels.swiglu import SwiGLUScratch
from vskipper.policy import SkipPolicy
from vskipper.sglang.attention import EngineAttention
from vskipper.sglang.graphs.runner import RoutedGraphs
from vskipper.sglang.layer import EngineLayer
from vskipper.sglang.passes import PassPlan


class RoutedDecoder:
    """model: the engine's decoder (embed_tokens, layers, norm). policy may be replaced between passes. graphs: where
    decode runs from captured graphs."""

    def __init__(
        self, model: Any, policy: SkipPolicy, routed_layers: tuple[int, ...], graphs: RoutedGraphs | None = None
    ) -> None:
        self._model = model
        self.policy = policy
        self.routed_layers = routed_layers
        self.graphs = graphs
        self.layers = tuple(EngineLayer(layer) for layer in model.layers)
        self.packed: Branches = PackedBranches()
        self._bounded: BoundedBranches | None = None

    def covers(self, plan: PassPlan, forward_batch: Any) -> bool:
        """False for a decode pass that was to run from a graph and has none: it must not run eagerly instead."""
        decodes = forward_batch.forward_mode.is_decode() and plan.captured is None
        return not (decodes and self.graphs is not None and self.graphs.captured)

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
            evidence=plan.captured,
        )
        branches = self.packed if plan.captured is None else self.bounded(hidden)
        hidden, residual = self._run_layers(hidden, run, branches)
        run.tape.finish()
        plan.done(run)
        normed: Tensor = self._model.norm(hidden, residual)[0]
        return normed

    def bounded(self, hidden: Tensor) -> BoundedBranches:
        """Branches for passes of up to the rows of the largest one so far, hidden [rows, hidden]: graphs are captured
        from the largest on, and captured anew all together."""
        rows, width = hidden.shape[0], self._width()
        if self._bounded is None or not self._bounded.scratch.holds(rows, width):
            self._bounded = BoundedBranches(SwiGLUScratch.allocate(rows, width, hidden.dtype, hidden.device))
        return self._bounded

    def _width(self) -> int:
        """Of the widest MLP or projector that may run."""
        mlps = (layer.mlp_weights for layer in self.layers)
        projectors = (projector_of(self.policy, layer, None).swiglu for layer in self.routed_layers)
        return max(weights.w_out.shape[1] for weights in (*mlps, *projectors) if weights is not None)

    def _run_layers(self, hidden: Tensor, run: RoutedPass, branches: Branches) -> tuple[Tensor, Tensor]:
        index = {layer: i for i, layer in enumerate(self.routed_layers)}
        residual: Tensor | None = None
        for number, modules in enumerate(self.layers):
            if number in index:
                routed = RoutedLayer(
                    layer=number, index=index[number], modules=modules, policy=self.policy, branches=branches
                )
                hidden, residual = routed(hidden, residual, run)
            else:
                hidden, residual = dense_layer(number, modules, hidden, residual, run.positions, run.attention)
        assert residual is not None
        return hidden, residual
