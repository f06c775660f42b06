"""The lifecycle engine of runtime sglang: schedulers by model and shape, built once and used again while clean."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from conformance.runtimes.sglang.scheduler.build import Built, build
from conformance.runtimes.sglang.scheduler.session import SchedulerSession
from conformance.runtimes.sglang.seat import CPU_SEAT, Seat
from properties.lifecycle.engine import LifecycleSession, Shape
from properties.runtime import Model

KEPT = 12
_built: OrderedDict[object, Built] = OrderedDict()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerEngine:
    """Implements LifecycleEngine over SGLang's Scheduler. seat: where it runs; a shape's page size comes first."""

    seat: Seat = CPU_SEAT
    overlaps: bool = True
    shapes: tuple[Shape, ...] | None = None

    def covers(self, rows: int) -> bool:
        return not self.seat.graphs or rows <= max(self.seat.graphs)

    @property
    def captures(self) -> bool:
        return bool(self.seat.graphs)

    def open(self, model: Model, shape: Shape, *, stock: bool = False) -> LifecycleSession:
        key = (model.directory, model.dtype, model.routed_layers, self.seat, shape, stock)
        if key not in _built:
            _built[key] = build(model, shape, self.seat, stock=stock)
            while len(_built) > KEPT:
                _forget(next(iter(_built)))
        _built.move_to_end(key)
        return SchedulerSession(_built[key], model, discard=lambda: _forget(key))


def _forget(key: object) -> None:
    _built.pop(key).close()
