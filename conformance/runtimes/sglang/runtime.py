"""The runtimes `sglang` and `sglang-cuda`: the engine's real ModelRunner and Scheduler in this process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from conformance.runtimes.refusals import check_layout
from conformance.runtimes.sglang.engine import open_engine
from conformance.runtimes.sglang.graphs.engine import SGLangGraphs
from conformance.runtimes.sglang.graphs.far import kv_bytes
from conformance.runtimes.sglang.pool import new_pool
from conformance.runtimes.sglang.process import use_device
from conformance.runtimes.sglang.scheduler.engine import SchedulerEngine
from conformance.runtimes.sglang.seat import CPU_SEAT, LIFE_SIZES, Seat
from conformance.runtimes.sglang.session import SGLangSession
from properties.graph.engine import GraphEngine
from properties.lifecycle.engine import LifecycleEngine
from properties.runtime import Mode, Model, RuntimeCapabilities, Session
from reference.plan import PoolLayout
from vskipper.errors import InputError

# BLAS may compute a row otherwise in a batch of another size
CAPABILITIES = RuntimeCapabilities(
    row_invariant=False, same_kernels=True, kv_scales=False, kv_dtypes=CPU_SEAT.kv_dtypes
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLangRuntime:
    """Implements Runtime, eager. Opening a session makes a pool; the engine of a model is built once a process. Raises
    InputError where SGLang is not installed."""

    name: str = "sglang"
    seat: Seat = CPU_SEAT

    def __post_init__(self) -> None:
        use_device(self.seat.device)

    @property
    def capabilities(self) -> RuntimeCapabilities:
        room = 0 if self.seat.device == "cpu" else kv_bytes()
        here = replace(CAPABILITIES, device=self.seat.device, kv_dtypes=self.seat.kv_dtypes, kv_bytes=room)
        # its prefill reads on into the next request's rows and multiplies what it finds by zero
        return replace(here, fills=("zero", "old")) if self.seat.attention_backend == "flashinfer" else here

    @property
    def lifecycle(self) -> LifecycleEngine:
        """The same engine whole, for what a single pass cannot show; on a GPU with its decode graphs."""
        graphs = () if self.seat.device == "cpu" else LIFE_SIZES
        return SchedulerEngine(seat=replace(self.seat, graphs=graphs, prefill_graphs=bool(graphs)))

    @property
    def graphs(self) -> GraphEngine | None:
        """Its captured decode passes; none on a CPU."""
        return None if self.seat.device == "cpu" else SGLangGraphs(seat=self.seat)

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        check_pool(layout, self.capabilities)
        # on a CPU any pool serves the one engine
        on_cpu = self.seat.device == "cpu"
        engine = open_engine(model, self.seat if on_cpu else replace(self.seat, kv_dtype=layout.kv_dtype))
        pool = new_pool(engine.pool, layout)
        return SGLangSession(engine=engine, pool=pool, model=model, policy=policy, layout=layout, mode=mode)


def check_pool(layout: PoolLayout, capabilities: RuntimeCapabilities = CAPABILITIES) -> None:
    """Raises InputError for a layout that SGLang has no pool for on the device."""
    check_layout(layout)
    where = "pool layout on SGLang"
    if layout.kv_dtype not in capabilities.kv_dtypes:
        expected = ", ".join([*filter(None, capabilities.kv_dtypes), "None"])
        raise InputError("KV dtype", where=where, got=layout.kv_dtype, expected=expected)
    if (layout.k_scale, layout.v_scale) != (1.0, 1.0):
        got = f"{layout.k_scale} and {layout.v_scale}"
        raise InputError("KV scales", where=where, got=got, expected="1.0, the suite gives the engine's layers none")
