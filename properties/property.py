"""One property: its clause, its cases, how to check one, and what must have happened for that to mean anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis.strategies import SearchStrategy
from torch import Tensor

from properties.runtime import Model, Runtime

Compares = Literal["margin", "bits", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is being certified. make_policy(dtype, device) builds the policy on the model, on a CPU unless told
    otherwise; fixture projector and gate included. given: the checkpoint's tensors that it was built with.
    seen: vacuity counters, raised by checks as interesting cases occur."""

    runtime: Runtime
    model: Model
    make_policy: Callable[..., Any]
    policy_name: str
    seen: Counter[str]
    given: Mapping[str, Tensor] = field(default_factory=dict)

    def served_policy(self) -> Any:
        """The policy as the runtime is given it."""
        return self.make_policy(self.model.dtype, self.runtime.capabilities.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """id: area.name, public and stable. clause: the one it decides. cases(subject): a strategy of case dataclasses made
    of integers only. check(subject, case): raises Violation. counters: must all be above 0 at the end, else the
    property fails as vacuous. only_where: of a counter that not every subject can raise, which ones can. examples: how
    many at full strength. scope: structure runs on tiny models with forced routes, start on the first of them alone,
    since nothing of it reaches the runtime, policy and model on what is being certified. own_routes: the policy
    decides, not the case's tapes. compares: bits, or errors with an envelope, so that a pass has a margin; either
    where runtime or policy decides. unsupported(subject): which declared capability it lacks for this property to
    apply, or None.
    """

    id: str
    clause: str
    title: str
    cases: Callable[[Subject], SearchStrategy[Any]]
    check: Callable[[Subject, Any], None]
    counters: tuple[str, ...]
    only_where: Mapping[str, Callable[[Subject], bool]] = field(default_factory=dict, hash=False)
    examples: int = 50
    scope: str = "structure"
    own_routes: bool = False
    compares: Compares = "bits"
    unsupported: Callable[[Subject], str | None] = lambda subject: None

    def demanded(self, subject: Subject) -> tuple[str, ...]:
        """The counters that this subject must raise."""
        return tuple(name for name in self.counters if self.only_where.get(name, _always)(subject))


def _always(subject: Subject) -> bool:
    return True
