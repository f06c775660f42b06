"""What a property needs of a runtime whose decode passes run from captured graphs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor

from properties.runtime import LayerWork, Model, StepResult
from reference.plan import Fill, StepPlan, TapePlan

# dense: the engine's own graph; routed: the one that reads its routes on the device
Variant = Literal["dense", "routed"]
# replay: of the graph. twin: the code that was captured, run once more without the graph, on the same buffers
Way = Literal["replay", "twin"]


def captured_count(size: int) -> int:
    """PROJECT_ONLY rows, the first ones, of the tape with which a graph of `size` rows was captured."""
    return size // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A pass's evidence. actions: uint8 [routed layers, rows]. work: of each routed layer."""

    actions: Tensor
    work: tuple[LayerWork, ...]


class GraphSession(Protocol):
    """Graphs of one model over one pool. Passes build on each other through the pool alone."""

    @property
    def kv(self) -> Sequence[tuple[Tensor, Tensor]]:
        """The pool itself, not a copy: K and V of each layer, [slots, kv heads, head dim]; more slots than the layout
        asks for may be there, and nobody's."""

    @property
    def code_runs(self) -> int:
        """How often the model's own code has run for a graph, be it to warm up or to capture; a twin is not counted."""

    def decode(
        self, plan: StepPlan, tape: TapePlan | None, *, variant: Variant = "routed", way: Way = "replay"
    ) -> StepResult:
        """One pass of decode rows, padded to the least captured size. tape: None in variant dense, and where the policy
        decides. The result's evidence is the runtime's own, not copied."""

    def decode_all(self, plans: Sequence[StepPlan], dense: Sequence[frozenset[str]]) -> tuple[Decided, ...]:
        """Passes by the policy's routes, each but the requests in `dense`, which run as the dense model does: queued
        one after the other, and read only after the last. Contexts are nobody's."""

    def fill_padding(self, fill: Fill) -> None:
        """What padding rows enter the first layer with, in every pass from now on; so are their routes, to be ignored,
        and the dummy slot's K and V, unless `fill` is zero."""

    def no_waits(self) -> AbstractContextManager[None]:
        """While it lasts, whatever makes the host wait for the device raises."""

    def close(self) -> None: ...


class StockGraphSession(Protocol):
    """Graphs of an engine that serves without the plugin."""

    @property
    def kv(self) -> Sequence[tuple[Tensor, Tensor]]:
        """As GraphSession's."""

    def decode(self, plan: StepPlan) -> Tensor:
        """Logits [rows, vocab] of one pass."""

    def close(self) -> None: ...


class GraphEngine(Protocol):
    """A runtime's graphs."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the captured graphs, ascending."""

    def open(
        self, model: Model, policy: object, page_size: int, *, forced: bool, slots: int | None = None
    ) -> GraphSession:
        """forced: routes come from tapes, and only the policy's projector is used. slots: at least so many are in its
        pool, which nobody else has then; None: what any case needs."""

    def open_stock(self, model: Model, page_size: int) -> StockGraphSession:
        """The same engine, its plugin off."""
