"""The properties that decide each level, in the order in which they are run and reported."""

from __future__ import annotations

from collections.abc import Mapping

from properties.core.all_run import SEM_ALL_RUN
from properties.core.bad_input import INPUT_REFUSED
from properties.core.bad_plan import PLAN_REFUSED
from properties.core.cohort import MAP_PARTITION
from properties.core.gate import GATE_MODE, GATE_ROUTES, GATE_THRESHOLD
from properties.core.kv_one_rule import KV_ONE_RULE
from properties.core.kv_scales import KV_SCALES
from properties.core.kv_values import KV_OWN_LAYER
from properties.core.kv_writes import KV_COMPLETE, KV_FOOTPRINT
from properties.core.map_fresh import MAP_FRESH
from properties.core.map_invariance import MAP_BATCH, MAP_LAYOUT, MAP_ROW_ORDER
from properties.core.model import MODEL_ALL_RUN, MODEL_OUTPUTS, MODEL_ROUTES
from properties.core.padding import PAD_INERT
from properties.core.policy_device import POLICY_ON_DEVICE
from properties.core.policy_hooks import POLICY_DECLARED
from properties.core.policy_promises import (
    POLICY_BATCH_INVARIANT,
    POLICY_CHUNK_INVARIANT,
    POLICY_DETERMINISTIC,
    POLICY_PREFIX_DETERMINED,
)
from properties.core.sem import SEM_OUTPUTS, SEM_REPEATABLE
from properties.core.skipped_attention import SEM_SKIPPED_ATTENTION, SEM_ZERO_PROJECTOR
from properties.core.wide import SEM_WIDE
from properties.core.work import WORK_COUNTS
from properties.graph.alternate import GRAPH_ALTERNATE
from properties.graph.dense import GRAPH_DENSE
from properties.graph.far import GRAPH_FAR
from properties.graph.padding import GRAPH_PADDING
from properties.graph.policy import GRAPH_POLICY
from properties.graph.replay import GRAPH_OUTPUTS, GRAPH_REPLAY
from properties.graph.rows import GRAPH_ROWS
from properties.graph.skipped import GRAPH_SKIPPED
from properties.graph.still import GRAPH_STILL
from properties.lifecycle.cache import CACHE_ISOLATED, CACHE_PRIVATE, CACHE_SHARED
from properties.lifecycle.life_alone import LIFE_ALONE
from properties.lifecycle.life_slots import LIFE_SLOTS
from properties.lifecycle.mode_dense import MODE_DENSE
from properties.lifecycle.mode_fixed import MODE_FIXED
from properties.property import Property
from vskipper.errors import InputError

CORE: tuple[Property, ...] = (
    KV_COMPLETE,
    KV_FOOTPRINT,
    KV_OWN_LAYER,
    KV_ONE_RULE,
    KV_SCALES,
    MAP_PARTITION,
    MAP_FRESH,
    MAP_ROW_ORDER,
    MAP_LAYOUT,
    MAP_BATCH,
    SEM_OUTPUTS,
    SEM_REPEATABLE,
    SEM_WIDE,
    SEM_ZERO_PROJECTOR,
    SEM_SKIPPED_ATTENTION,
    SEM_ALL_RUN,
    GATE_ROUTES,
    GATE_THRESHOLD,
    GATE_MODE,
    PAD_INERT,
    POLICY_DECLARED,
    POLICY_DETERMINISTIC,
    POLICY_BATCH_INVARIANT,
    POLICY_CHUNK_INVARIANT,
    POLICY_PREFIX_DETERMINED,
    POLICY_ON_DEVICE,
    WORK_COUNTS,
    INPUT_REFUSED,
    PLAN_REFUSED,
    MODEL_OUTPUTS,
    MODEL_ALL_RUN,
    MODEL_ROUTES,
)

LIFECYCLE: tuple[Property, ...] = (
    MODE_DENSE,
    MODE_FIXED,
    CACHE_ISOLATED,
    CACHE_SHARED,
    CACHE_PRIVATE,
    LIFE_ALONE,
    LIFE_SLOTS,
)

GRAPH: tuple[Property, ...] = (
    GRAPH_REPLAY,
    GRAPH_OUTPUTS,
    GRAPH_STILL,
    GRAPH_PADDING,
    GRAPH_ALTERNATE,
    GRAPH_POLICY,
    GRAPH_ROWS,
    GRAPH_SKIPPED,
    GRAPH_DENSE,
    GRAPH_FAR,
)

PROPERTIES: Mapping[str, tuple[Property, ...]] = {"core": CORE, "graph": GRAPH, "lifecycle": LIFECYCLE}

LEVEL_OF: Mapping[str, str] = {rule.id: level for level, rules in PROPERTIES.items() for rule in rules}
_BY_ID = {property.id: property for level in PROPERTIES.values() for property in level}


def by_id(id: str) -> Property:
    """The property of that id; raises InputError that lists the known ones."""
    if id not in _BY_ID:
        raise InputError("unknown property", where="property", got=id, expected=", ".join(_BY_ID))
    return _BY_ID[id]
