"""The torch runtime in its two forms: `torch` (packed, dense operators) and `triton` (bounded, vSkipper's kernels)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from conformance.runtimes.refusals import check_layout
from conformance.runtimes.torch_runtime.modules import TorchModules
from conformance.runtimes.torch_runtime.session import TorchSession
from properties.runtime import Mode, Model, RuntimeCapabilities, Session
from reference.plan import PoolLayout
from vskipper.execution.bounded import BoundedBranches
from vskipper.execution.branches import Branches
from vskipper.execution.packed import PackedBranches
from vskipper.kernels.swiglu import SwiGLUScratch

CAPACITY = 64
Kernels = Literal["torch", "triton"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRuntime:
    """Implements Runtime. name: which branches run the cohorts. Modules are built once a model."""

    name: Kernels
    _modules: dict[int, tuple[Model, TorchModules]] = field(default_factory=dict)

    @property
    def capabilities(self) -> RuntimeCapabilities:
        return RuntimeCapabilities(
            same_kernels=self.name == "torch", kv_dtypes=(None, "float16", "bfloat16", "float8_e4m3fn")
        )

    def open(self, model: Model, policy: Any, layout: PoolLayout, mode: Mode) -> Session:
        check_layout(layout)
        # the model is kept beside its modules, so that its id stays its own
        if id(model) not in self._modules:
            self._modules[id(model)] = (model, TorchModules(model))
        return TorchSession(
            model=model,
            modules=self._modules[id(model)][1],
            policy=policy,
            layout=layout,
            mode=mode,
            branches=self._branches(model),
        )

    def _branches(self, model: Model) -> Branches:
        if self.name == "torch":
            return PackedBranches()
        width = max(model.config.intermediate_size, model.config.hidden_size)
        return BoundedBranches(SwiGLUScratch.allocate(CAPACITY, width, model.dtype, "cpu"))
