"""How a fault of code that runs under every runtime is made."""

from __future__ import annotations

from functools import partial

from conformance.faults.fault import Fault
from conformance.runtime_names import ENGINE

# of the executor, or of what a policy tells it: where the engine is certified on a CPU, it is the engine that is broken
executor_fault = partial(Fault, follows=(ENGINE,))
