"""What one certification consists of: properties on their subjects, then faults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from conformance.faults.fault import Fault
from conformance.faults.registry import FAULTS_OF
from conformance.request import CertifyRequest
from conformance.runtime_names import CUDA, ENGINE, device_of
from conformance.subjects import SubjectSpec
from properties.property import Property
from properties.registry import PROPERTIES
from vskipper.errors import InputError
from vskipper.models.seeded import SMALL_MODELS, TINY_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A runtime and a model that structural properties run on. examples: a fixed number of each property's, or None for
    an even share of the rest. only: the properties it runs, or None for all."""

    runtime: str
    model: str
    examples: int | None = None
    only: frozenset[str] | None = None


# scopes of properties that run on the model and policy asked for
ASKED_FOR = ("policy", "model")
# what the bounded path computes, plans or counts; each example costs a second in the interpreter
KERNEL_PROPERTIES = frozenset(
    {
        "map.partition",
        "map.row_order",
        "map.layout",
        "map.batch",
        "sem.outputs",
        "sem.repeatable",
        "sem.zero_projector",
        "sem.skipped_attention",
        "gate.mode",
        "pad.inert",
        "work.counts",
    }
)
CUDA_TARGETS = tuple(Target(runtime=CUDA, model=model) for model in SMALL_MODELS)
# a server takes half a minute to start, and its memory
SERVER_TARGETS = (Target(runtime="server", model="tiny-llama"),)
# each case runs a whole engine, and one runtime brings one
LIFECYCLE_TARGETS: Mapping[str, tuple[Target, ...]] = {
    "sglang": tuple(Target(runtime="sglang", model=model) for model in TINY_MODELS),
    CUDA: CUDA_TARGETS,
    "server": SERVER_TARGETS,
}
TARGETS: Mapping[str, tuple[Target, ...]] = {
    "torch": (
        *(Target(runtime="torch", model=model) for model in TINY_MODELS),
        Target(runtime="triton", model="tiny-llama", examples=6, only=KERNEL_PROPERTIES),
    ),
    **{
        name: tuple(Target(runtime=name, model=model) for model in TINY_MODELS)
        for name in ("triton", "reference", "sglang")
    },
    CUDA: CUDA_TARGETS,
    "server": SERVER_TARGETS,
}


GRAPH_TARGETS: Mapping[str, tuple[Target, ...]] = {CUDA: CUDA_TARGETS}
TARGETS_OF: Mapping[str, Mapping[str, tuple[Target, ...]]] = {
    "core": TARGETS,
    "graph": GRAPH_TARGETS,
    "lifecycle": LIFECYCLE_TARGETS,
}


def targets(level: str, runtime: str) -> tuple[Target, ...]:
    """What the level's structural properties run on; raises InputError for a runtime that the level does not know."""
    of_level = TARGETS_OF[level]
    if runtime not in of_level:
        expected = ", ".join(name.replace(CUDA, f"{ENGINE} with --device cuda") for name in of_level)
        raise InputError("runtime for this level", where=f"level {level}", got=runtime, expected=expected)
    return of_level[runtime]


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyItem:
    """One property on one subject."""

    rule: Property
    spec: SubjectSpec
    examples: int
    seed: int

    @property
    def id(self) -> str:
        return f"{self.rule.id}@{self.spec.runtime}/{self.spec.model}"


def property_items(request: CertifyRequest) -> tuple[PropertyItem, ...]:
    """In the must-pass order; structural ones once a target, the others once on the model and policy asked for."""
    return tuple(item for rule in PROPERTIES[request.level] for item in _items_of(rule, request))


def faults(request: CertifyRequest) -> tuple[Fault, ...]:
    """The faults of the level that bite on the attention backend, or none where they are not asked for."""
    if not request.faults:
        return ()
    return tuple(f for f in FAULTS_OF[request.level] if not f.backends or request.attention_backend in f.backends)


def interpreted(fault: Fault, request: CertifyRequest) -> bool:
    """Whether the fault bites on kernels of the CPU, which this request's own processes compile for a GPU."""
    return fault.runtime == "triton" and device_of(request.runtime) == "cuda"


def full_examples(property: Property, request: CertifyRequest) -> int:
    """How many examples the property gets over all its subjects."""
    return property.examples if request.examples is None else request.examples


def _items_of(rule: Property, request: CertifyRequest) -> Iterator[PropertyItem]:
    examples = full_examples(rule, request)
    if rule.scope in ASKED_FOR:
        spec = asked_for(request)
        yield PropertyItem(rule=rule, spec=spec, examples=examples, seed=request.seed)
        return
    own = targets_of(rule, targets(request.level, request.runtime))
    for index, target in enumerate(own):
        yield PropertyItem(
            rule=rule,
            spec=SubjectSpec(
                runtime=target.runtime,
                model=target.model,
                dtype=request.dtype,
                attention_backend=request.attention_backend,
            ),
            examples=_share(examples, target, own),
            seed=request.seed + index,
        )


def targets_of(rule: Property, known: Sequence[Target]) -> list[Target]:
    """Those that a property runs on whose scope is not in ASKED_FOR."""
    own = [each for each in known if each.only is None or rule.id in each.only]
    return own[:1] if rule.scope == "start" else own


def _share(examples: int, target: Target, targets: list[Target]) -> int:
    """This target's part of a property's examples; a fixed part never takes more than half of them."""
    fixed = sum(min(each.examples, examples // 2) for each in targets if each.examples is not None)
    if target.examples is not None:
        return max(1, min(target.examples, examples // 2))
    return math.ceil((examples - fixed) / sum(each.examples is None for each in targets))


def asked_for(request: CertifyRequest) -> SubjectSpec:
    """The subject that the request names."""
    return SubjectSpec(
        runtime=request.runtime,
        model=request.model,
        policy=request.policy,
        delta=request.delta,
        settings=request.settings,
        dtype=request.dtype,
        attention_backend=request.attention_backend,
    )
