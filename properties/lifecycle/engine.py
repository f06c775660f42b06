"""What the lifecycle properties need of an engine under test: feed its loop, and let the suite see what ran and who
holds which slots. A third party certifies its own engine by implementing LifecycleEngine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor

from properties.codec import case_type
from properties.property import Subject
from properties.runtime import Model
from vskipper.errors import InputError

Mode = Literal["off", "dense", "routed", "by-request"]
# all its tokens, or up to the model's end token
FINISHED = ("length", "stop")
Kv = tuple[tuple[Tensor, Tensor], ...]


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An engine: pages of `page_size` slots, prompts computed in chunks of up to `chunk` rows, `tokens` slots in all
    (the dummy page not counted), `running` requests at most. overlap: the next batch is scheduled before the last
    one's results are handled. mixed: decode rows ride along with chunks."""

    page_size: int
    chunk: int
    tokens: int
    running: int
    overlap: bool
    mixed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the engine serves requests with. settings: the policy's. seed: of mode by-request. weights: every
    router and projector tensor is the model's own times 1 + weights / 4. Mode off: as if vSkipper were not there."""

    policy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = "routed"
    seed: int = 0
    weights: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A new request: greedy, for `outputs` tokens or up to the model's end token. user_key: what its user asks the
    engine to keep it apart by."""

    name: str
    tokens: tuple[int, ...]
    outputs: int
    user_key: str | None = None
    logprobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort:
    """Whoever sent the request has gone."""

    name: str


Command = Submission | Abort
# asked at the start of every iteration of the loop, by its number: what comes in, or None once nothing more will; the
# loop then goes on until no request is left
Control = Callable[[int], Sequence[Command] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a pass as the engine laid it out. slot: where its K and V go."""

    request: str
    position: int
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A row as vSkipper recorded it. dense: run as the dense model does."""

    request: str | None
    position: int
    decode: bool
    dense: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """iteration: of the loop. decode: whether the engine ran it as a decode batch. actions: [routed layers][rows] and
    owners: what was recorded of a routed pass; None of a dense one. replayed: whether the engine replayed a captured
    graph."""

    iteration: int
    rows: tuple[Row, ...]
    decode: bool = False
    replayed: bool = False
    actions: tuple[tuple[int, ...], ...] | None = None
    owners: tuple[Owner, ...] | None = None

    def action(self, row: int) -> tuple[int, ...] | None:
        """Of one row at each routed layer; None in a dense pass."""
        return None if self.actions is None else tuple(line[row] for line in self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What became of a request. outputs: its tokens. plans: (prefill, decode), `dense` or `routed`, each time a pass
    with it began, None where it has none. filed_under: the keys that the prefix cache knew it by, as they changed.
    kv: K and V of its first `computed` positions when it finished, [positions, kv heads, head dim] each layer, and the
    slots they lay in; None where it did not finish by itself. finish: how it ended by itself, one of FINISHED,
    or `abort`, or None. told: what its answer
    said of its plan. logprobs: of its outputs. attributes: of the engine's object for it."""

    name: str
    prompt: tuple[int, ...]
    outputs: tuple[int, ...]
    plans: tuple[tuple[str, str] | None, ...]
    filed_under: tuple[str | None, ...]
    cached: int
    retractions: int
    finish: str | None
    slots: tuple[int, ...] = ()
    kv: Kv | None = None
    told: Mapping[str, Any] | None = None
    logprobs: tuple[float, ...] = ()
    attributes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Pages at the start of an iteration, the dummy one not among `total`: on the allocator's list, in the prefix tree,
    and held by a request beyond what the tree holds of it. One entry each time a page stands somewhere.
    rows: of the request table, by the request that has it."""

    iteration: int
    total: int
    free: tuple[int, ...]
    tree: tuple[int, ...]
    held: Mapping[str, tuple[int, ...]]
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run of the loop. retracted: (iteration, name) of each request whose KV was taken. requests: by name, in the
    order in which they came in; those of earlier runs are not among them."""

    passes: tuple[Pass, ...]
    requests: Mapping[str, Ran]
    accounts: tuple[Account, ...]
    retracted: tuple[tuple[int, str], ...] = ()


class LifecycleSession(Protocol):
    """One engine with its prefix cache, which lives from run to run."""

    @property
    def empty_keys(self) -> bool:
        """Whether a user's empty key is another one than none."""

    def serve(self, served: Served) -> None:
        """What requests from now on are served with; what the prefix cache holds stays. No request may be under way."""

    def key_of(self, request: str) -> str | None:
        """The key that the prefix cache knows the request by."""

    def outputs_of(self, request: str) -> tuple[int, ...]:
        """Tokens that the request has so far."""

    def run(self, control: Control) -> History:
        """Run the engine's own loop until it is idle and nothing more comes in."""

    def close(self) -> None: ...


class LifecycleEngine(Protocol):
    """An engine under test."""

    @property
    def overlaps(self) -> bool:
        """Whether Shape.overlap may be true."""

    @property
    def shapes(self) -> tuple[Shape, ...] | None:
        """The only ones that it is asked for, where starting another takes long; None: any."""

    def covers(self, rows: int) -> bool:
        """Whether a decode pass of so many rows can be routed; one that cannot runs dense."""

    @property
    def captures(self) -> bool:
        """Whether decode batches are replayed from captured graphs."""

    def open(self, model: Model, shape: Shape, *, stock: bool = False) -> LifecycleSession:
        """An idle engine with an empty prefix cache. stock: with the engine's own model class."""


def engine_of(subject: Subject) -> LifecycleEngine:
    """The runtime's engine; raises InputError for a runtime that has none."""
    engine: LifecycleEngine | None = getattr(subject.runtime, "lifecycle", None)
    if engine is None:
        raise InputError(
            "runtime", where="a lifecycle property", got=subject.runtime.name, expected="one with an engine"
        )
    return engine
