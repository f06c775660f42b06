"""What all faults of the level have in common."""

from __future__ import annotations

from functools import partial

from conformance.faults.fault import Fault
from conformance.runtime_names import CUDA, ENGINE
from vskipper.sglang.checks.gpu import BACKENDS

# a case is a whole run of the engine, so that each fault meets its killer and a few others alone
lifecycle_fault = partial(Fault, runtime=ENGINE, follows=(CUDA,), only_named=True)
# of what only an engine on a GPU has
gpu_fault = partial(lifecycle_fault, backends=tuple(BACKENDS))
