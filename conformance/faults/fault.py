"""One seeded fault: what is broken, by which public report, who must see it, and who must stay quiet."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from conformance.faults.active import in_force
from conformance.runtime_names import CUDA

# properties that no fault of what a layer computes may disturb
WRITES_AND_MAPS = ("kv.complete", "kv.footprint", "map.partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """seam: dotted path of the one attribute that is replaced, `package.module:Object.attribute`.
    patch: from the original attribute to the broken one. killer: the property that must fail, for exactly `reason`.
    quiet: properties that must still pass, so that the killer is shown to be specific. source: the public report or
    incident it stands for. runtime, model: where it is tried. follows: runtimes that it bites on as well, and is tried
    on where they are what is certified. backends: the engine's attention backends with which it bites, none where it
    does with any. only_named: held against its killer and quiet list alone, where a runtime is too
    slow for the whole row."""

    id: str
    title: str
    source: str
    seam: str
    patch: Callable[[Any], Any]
    killer: str
    reason: str
    quiet: tuple[str, ...]
    runtime: str = "torch"
    model: str = "tiny-llama"
    follows: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    only_named: bool = False

    def meets(self, property: str) -> bool:
        """Whether the kill matrix holds the fault against this property."""
        return not self.only_named or property == self.killer or property in self.quiet

    @property
    def places(self) -> tuple[str, ...]:
        """`runtime/model` for each of its runtimes, its own first; on a GPU the models are those made for one."""
        named = (self.runtime, *self.follows)
        return tuple(f"{name}/{self.model.replace('tiny', 'small') if name == CUDA else self.model}" for name in named)

    @contextmanager
    def active(self) -> Iterator[None]:
        """The fault in force, and undone at the end."""
        owner, attribute = _locate(self.seam)
        with in_force(self.id), mock.patch.object(owner, attribute, self.patch(getattr(owner, attribute))):
            yield


def _locate(seam: str) -> tuple[Any, str]:
    module, _, path = seam.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, attribute = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, attribute
