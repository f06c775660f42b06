"""The runtime `sglang`: the engine's real ModelRunner, eager, on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.runtimes.refusals import check_layout
from conformance.runtimes.sglang.engine import engine_of
from conformance.runtimes.sglang.pool import new_pool
from conformance.runtimes.sglang.process import require
from conformance.runtimes.sglang.scheduler.engine import SchedulerEngine
from conformance.runtimes.sglang.session import SGLangSession
from properties.lifecycle.engine import LifecycleEngine
from properties.runtime import Mode, Model, RuntimeCapabilities, Session
from reference.plan import PoolLayout
from vskipper.errors import InputError

# what --kv-cache-dtype can ask for on a CPU
KV_DTYPES = (None, "bfloat16", "float8_e4m3fn")
# BLAS on a CPU may compute a row otherwise in a batch of another size
CAPABILITIES = RuntimeCapabilities(row_invariant=False, same_kernels=True, kv_scales=False, kv_dtypes=KV_DTYPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLangRuntime:
    """Implements Runtime. Opening a session makes a pool; the engine of a model is built once a process. Raises
    InputError where SGLang is not installed."""

    name: str = "sglang"

    def __post_init__(self) -> None:
        require()

    @property
    def capabilities(self) -> RuntimeCapabilities:
        return CAPABILITIES

    @property
    def lifecycle(self) -> LifecycleEngine:
        """The same engine whole, for what a single pass cannot show."""
        return SchedulerEngine()

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        check_pool(layout)
        engine = engine_of(model)
        pool = new_pool(engine.pool, layout)
        return SGLangSession(engine=engine, pool=pool, model=model, policy=policy, layout=layout, mode=mode)


def check_pool(layout: PoolLayout) -> None:
    """Raises InputError for a layout that SGLang has no pool for on a CPU."""
    check_layout(layout)
    where = "pool layout on SGLang"
    if layout.kv_dtype not in KV_DTYPES:
        expected = f"{', '.join(filter(None, KV_DTYPES))}, or None"
        raise InputError("KV dtype", where=where, got=layout.kv_dtype, expected=expected)
    if (layout.k_scale, layout.v_scale) != (1.0, 1.0):
        got = f"{layout.k_scale} and {layout.v_scale}"
        raise InputError("KV scales", where=where, got=got, expected="1.0, torch_native attention applies none")
