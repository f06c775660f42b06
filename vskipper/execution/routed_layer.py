"""One routed layer: route, write every row's K and V, attention, MLP or projector by cohort, scatter back."""

from __future__ import annotations

import torch
from torch import Tensor

from vskipper.execution.branches import BoundLayer, Branches
from vskipper.execution.projector import projector_of
from vskipper.execution.protocols import LayerModules
from vskipper.execution.routed_pass import RoutedPass
from vskipper.execution.routes import branch_scale, force_run, join
from vskipper.policy import Route, SkipPolicy


class RoutedLayer:
    """The index-th routed layer, layer `layer` of the model (clauses KV-1, MAP-1, SEM-1, SEM-2, WORK-1)."""

    def __init__(
        self, *, layer: int, index: int, modules: LayerModules, policy: SkipPolicy, branches: Branches
    ) -> None:
        self.layer = layer
        self.index = index
        self.modules = modules
        self.policy = policy
        self.branches = branches

    def __call__(self, hidden: Tensor, residual: Tensor | None, run: RoutedPass) -> tuple[Tensor, Tensor]:
        """The pair (hidden, residual) [rows, hidden] entering the layer to the pair leaving it."""
        x, h = self.modules.input_norm(hidden, residual)
        route = force_run(self.policy.route(self.layer, x, run.state), run.force_run)
        plan = run.plans[self.index]
        self.branches.plan(route.actions, run.valid, plan)
        q = self._write_kv(x, run)
        layer = BoundLayer(number=self.layer, modules=self.modules, attention=run.attention)
        attended, rows = self.branches.attend(layer, q, route, run.valid, plan)
        run.work.add(self.index, "attention", rows)
        y, h1 = self.modules.post_norm(attended, h)
        route = self._route_mlp(y, route, run)
        run.tape.write(self.layer, route)
        return self._branches(y, route, run), h1

    def _write_kv(self, x: Tensor, run: RoutedPass) -> Tensor:
        q, k, v = self.modules.qkv(x, run.positions)
        run.attention.write_kv(self.layer, k, v)
        run.work.add(self.index, "kv_rows", run.valid.sum())
        return q

    def _route_mlp(self, y: Tensor, route: Route, run: RoutedPass) -> Route:
        """The second decision of a mid-layer policy: the MLP bit, once attention is known."""
        hook = getattr(self.policy, "route_mlp", None)
        if hook is None:
            return route
        route = force_run(join(route, hook(self.layer, y, run.state)), run.force_run)
        self.branches.plan(route.actions, run.valid, run.plans[self.index])
        return route

    def _branches(self, y: Tensor, route: Route, run: RoutedPass) -> Tensor:
        plan, scale = run.plans[self.index], branch_scale(route)
        out = torch.zeros_like(y)
        rows = self.branches.mlp(self.modules, y, plan, scale, out)
        run.work.add(self.index, "mlp", rows)
        projector = projector_of(self.policy, self.layer, run.state)
        rows = self.branches.project(projector, y, plan, scale, out)
        run.work.add(self.index, "projector", rows)
        return out
