"""The graphs of runtime sglang-cuda: engines by model, policy and page size, built once and used again."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from conformance.faults.active import active_fault
from conformance.runtimes.sglang.engine import Engine
from conformance.runtimes.sglang.graphs.build import GraphBuilt, build_graphs
from conformance.runtimes.sglang.graphs.far import build_far
from conformance.runtimes.sglang.graphs.session import GraphPasses
from conformance.runtimes.sglang.graphs.stock import StockPasses, build_stock
from conformance.runtimes.sglang.seat import GRAPH_SIZES, Seat
from properties.runtime import Model

KEPT = 8
_built: OrderedDict[object, GraphBuilt] = OrderedDict()
_stock: dict[object, Engine] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLangGraphs:
    """Implements GraphEngine."""

    seat: Seat

    @property
    def sizes(self) -> tuple[int, ...]:
        return GRAPH_SIZES

    def open(self, model: Model, policy: Any, page_size: int, *, forced: bool, slots: int | None = None) -> GraphPasses:
        seat = replace(self.seat, page_size=page_size, graphs=GRAPH_SIZES)
        if slots is not None:
            with ExitStack() as until:
                built = build_far(model, seat, policy, slots, forced=forced, until=until)
                return GraphPasses(built, model, until.pop_all())
        # a fault may bite while a graph is captured
        key = (model.directory, model.dtype, model.routed_layers, seat, id(policy), forced, active_fault())
        if key not in _built:
            _built[key] = build_graphs(model, seat, policy, forced=forced)
            while len(_built) > KEPT:
                _built.popitem(last=False)
        _built.move_to_end(key)
        return GraphPasses(_built[key], model)

    def open_stock(self, model: Model, page_size: int) -> StockPasses:
        seat = replace(self.seat, page_size=page_size, graphs=GRAPH_SIZES)
        # no fault of the plugin reaches it
        key = (model.directory, model.dtype, seat)
        if key not in _stock:
            _stock[key] = build_stock(model, seat)
        return StockPasses(_stock[key])
