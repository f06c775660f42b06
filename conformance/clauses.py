"""The contract as data: every numbered clause, the levels it belongs to, and the version of what passing means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# rises only when the meaning of passing changes, never with a new property or a new message
CONTRACT_VERSION: Final = 1

CORE: Final = "core"
GRAPH: Final = "graph"
LIFECYCLE: Final = "lifecycle"
SERVING: Final = "serving"
TP: Final = "tp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause. id: public, such as KV-2. levels: the certificate levels that require it."""

    id: str
    text: str
    levels: tuple[str, ...]


def _clause(id: str, level: str, text: str, *others: str) -> Clause:
    return Clause(id=id, text=text, levels=(level, *others))


CLAUSES: Final = (
    _clause("KV-1", CORE, "at every layer every valid row writes K and V, once, to its own slot, whatever its action"),
    _clause(
        "KV-2",
        CORE,
        "a step changes exactly the (layer, slot) pairs it owns; no byte elsewhere in the pool "
        "(the engine's dummy slot or page 0 aside)",
    ),
    _clause("KV-3", CORE, "what is written is own-layer KV of that request, position and layer"),
    _clause("KV-4", CORE, "KV dtype and scales are the same rule for every cohort"),
    _clause(
        "MAP-1",
        CORE,
        "cohort maps partition the valid rows; counts equal the tape's; rows beyond a count are untouched",
    ),
    _clause(
        "MAP-2",
        CORE,
        "a row-to-memory map is recomputed whenever the row set it describes changes: layer, step, replay, chunk, "
        "retraction, reorder",
    ),
    _clause("MAP-3", CORE, "results do not depend on row order, slot numbers, page size or page order"),
    _clause(
        "SEM-1", CORE, "hidden states and logits equal the reference under the same tape, within the case's envelope"
    ),
    _clause("SEM-2", CORE, "attention of rows that skip it contributes exactly zero"),
    _clause("SEM-3", CORE, "all rows forced to RUN equals the dense model, bit for bit where the kernels are the same"),
    _clause(
        "SEM-4",
        CORE,
        "gate: threshold strict, gate mode honoured, routes equal the reference outside the margin, flips inside it "
        "counted",
    ),
    _clause(
        "GRAPH-1",
        GRAPH,
        "a captured graph's replay equals eager execution bit for bit, over a sequence of tapes on one graph: 0, 1, "
        "captured-1, captured, captured+1, all rows",
    ),
    _clause("GRAPH-2", GRAPH, "changing routes costs no recapture and no host synchronisation"),
    _clause(
        "GRAPH-3",
        CORE,
        "padding rows are inert: any content (NaN, Inf, old rows), any number; they are never counted",
    ),
    _clause(
        "GRAPH-4",
        GRAPH,
        "variants and sizes may alternate in any order; none disturbs another's outputs, plans or buffers",
    ),
    _clause("MODE-1", LIFECYCLE, "dense mode is the engine's own execution, bit for bit, and costs nothing", SERVING),
    _clause(
        "MODE-2",
        SERVING,
        "the switch decides by the stated rule, at its stated edges; every decision is counted and equals what ran",
    ),
    _clause(
        "MODE-3",
        LIFECYCLE,
        "a request's prefill mode never changes; its decode mode changes at most once, dense to routed. A decode row "
        "that no graph covers runs dense, is counted, and does so whenever it is computed again",
    ),
    _clause("CACHE-1", LIFECYCLE, "prefixes of different mode, policy, weights or settings are never shared"),
    _clause(
        "CACHE-2",
        LIFECYCLE,
        "equal ones are shared. The namespace follows the prefill mode; what a request adds after its prefill is "
        "inserted only if its decode mode is the same",
    ),
    _clause(
        "CACHE-3",
        LIFECYCLE,
        "a policy whose decisions depend on more than the row's own prefix of tokens (request id, neighbours, time) "
        "shares nothing between requests",
    ),
    _clause(
        "LIFE-1",
        LIFECYCLE,
        "under any admissible schedule (chunking, prefix hit, retraction, abort, slot reuse, reorder) each request's "
        "tokens and KV equal those of the reference running that request alone with its recorded plan",
    ),
    _clause("LIFE-2", LIFECYCLE, "slots are conserved: free + used = total, no slot has two owners"),
    _clause(
        "POL-1",
        CORE,
        "the policy's declared capabilities hold: actions, phases, determinism, batch-, order- and chunk-invariance",
    ),
    _clause("POL-2", CORE, "it stays on the device: no synchronisation, no Python state per step, capturable"),
    _clause(
        "WORK-1",
        CORE,
        "the declared mechanism ran: routed launches and counts equal the tape's; nothing fell back silently",
    ),
    _clause("TP-1", TP, "every rank takes the same routes and the same mode"),
    _clause(
        "IN-1",
        CORE,
        "bad input (checkpoint, policy, configuration, engine version, GPU) is refused at start with what, where, "
        "got, expected; never served wrongly, never a crash later",
    ),
)

CLAUSE_BY_ID: Final = {clause.id: clause for clause in CLAUSES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A certificate level, granted whole or not at all. id: as on the command line; title: as on the certificate."""

    id: str
    title: str

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses it requires, in the contract's order."""
        return tuple(clause for clause in CLAUSES if self.id in clause.levels)


LEVELS: Final = (
    Level(id=CORE, title="Core"),
    Level(id=GRAPH, title="Graph"),
    Level(id=LIFECYCLE, title="Lifecycle"),
    Level(id=SERVING, title="Serving"),
    Level(id=TP, title="TP"),
)

LEVEL_BY_ID: Final = {level.id: level for level in LEVELS}
