"""The runtime `sglang`: the engine's real ModelRunner, eager, on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformance.runtimes.refusals import check_layout
from conformance.runtimes.sglang.engine import engine_of
from conformance.runtimes.sglang.session import SGLangSession
from properties.runtime import Mode, Model, RuntimeCapabilities, Session
from reference.plan import PoolLayout
from vskipper.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLangRuntime:
    """Implements Runtime. Opening a session makes a pool; the engine of a model is built once a process."""

    name: str = "sglang"

    @property
    def capabilities(self) -> RuntimeCapabilities:
        # BLAS on a CPU may compute a row otherwise in a batch of another size
        return RuntimeCapabilities(row_invariant=False, same_kernels=True, padding=False)

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        check_layout(layout)
        plain = PoolLayout(page_size=layout.page_size, pages=layout.pages)
        if layout != plain:
            got = f"{layout.kv_dtype or 'the dtype of hidden states'}, scales {layout.k_scale} and {layout.v_scale}"
            expected = "the dtype of hidden states, scales 1.0: SGLang's torch_native attention applies none"
            raise InputError("KV dtype and scales", where="pool layout", got=got, expected=expected)
        return SGLangSession(engine=engine_of(model), model=model, policy=policy, layout=layout, mode=mode)
