"""All seeded faults by level, in the order of the kill matrix."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.faults.core import (
    branches,
    cohorts,
    evidence,
    gate,
    inputs,
    kernels,
    kv,
    maps,
    padding,
    policies,
    policy_sizes,
    policy_state,
    wide,
)
from conformance.faults.fault import Fault
from conformance.faults.graph import attention, captured, frozen, kept, replayed
from conformance.faults.graph import rows as rows_of_replay
from conformance.faults.lifecycle import decode_graphs, modes, namespaces, prefill_graphs, rows, slots, writes
from vskipper.errors import InputError

FAULTS: tuple[Fault, ...] = tuple(
    fault
    for area in (
        *(kv, cohorts, maps, padding, branches, gate, evidence, kernels, wide),
        *(policies, policy_sizes, policy_state, inputs),
    )
    for fault in area.FAULTS
)
LIFECYCLE_FAULTS: tuple[Fault, ...] = tuple(
    fault for area in (modes, prefill_graphs, decode_graphs, namespaces, rows, writes, slots) for fault in area.FAULTS
)
GRAPH_FAULTS: tuple[Fault, ...] = tuple(
    fault for area in (frozen, captured, kept, rows_of_replay, replayed, attention) for fault in area.FAULTS
)
FAULTS_OF: Mapping[str, tuple[Fault, ...]] = {"core": FAULTS, "graph": GRAPH_FAULTS, "lifecycle": LIFECYCLE_FAULTS}
_BY_ID = {fault.id: fault for faults in FAULTS_OF.values() for fault in faults}


def fault_by_id(id: str) -> Fault:
    """Raises InputError that lists the known ones."""
    if id not in _BY_ID:
        raise InputError("unknown fault", where="fault", got=id, expected=", ".join(_BY_ID))
    return _BY_ID[id]
