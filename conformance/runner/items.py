"""What one certification consists of: properties on their subjects, then faults."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.faults.fault import Fault
from conformance.faults.registry import FAULTS
from conformance.request import Request
from conformance.subjects import SubjectSpec
from properties.property import Property
from properties.registry import CORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A runtime and a model that structural properties run on, and its share of their examples."""

    runtime: str
    model: str
    share: float


# both architectures, and vSkipper's kernels where an interpreter makes each example dear
TORCH_VARIANTS = (
    Variant(runtime="torch", model="tiny-llama", share=0.4),
    Variant(runtime="torch", model="tiny-qwen3", share=0.4),
    Variant(runtime="triton", model="tiny-llama", share=0.2),
)
REFERENCE_VARIANTS = (
    Variant(runtime="reference", model="tiny-llama", share=0.5),
    Variant(runtime="reference", model="tiny-qwen3", share=0.5),
)
VARIANTS = {"torch": TORCH_VARIANTS, "reference": REFERENCE_VARIANTS}


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


def property_items(request: Request) -> tuple[PropertyItem, ...]:
    """In the must-pass order; structural ones once a variant, the others once on the model and policy asked for."""
    return tuple(item for property in CORE for item in _items_of(property, request))


def faults(request: Request) -> tuple[Fault, ...]:
    """The faults of the level, or none where they are not asked for."""
    return FAULTS if request.faults else ()


def full_examples(property: Property, request: Request) -> int:
    """How many examples the property gets over all its subjects."""
    return property.examples if request.examples is None else request.examples


def _items_of(property: Property, request: Request) -> Iterator[PropertyItem]:
    examples = full_examples(property, request)
    if property.scope != "structure":
        spec = asked_for(request)
        yield PropertyItem(rule=property, spec=spec, examples=examples, seed=request.seed)
        return
    for index, variant in enumerate(VARIANTS[request.runtime]):
        yield PropertyItem(
            rule=property,
            spec=SubjectSpec(runtime=variant.runtime, model=variant.model),
            examples=math.ceil(examples * variant.share),
            seed=request.seed + index,
        )


def asked_for(request: Request) -> SubjectSpec:
    """The subject that the request names."""
    return SubjectSpec(
        runtime=request.runtime,
        model=request.model,
        policy=request.policy,
        delta=request.delta,
        settings=request.settings,
    )
