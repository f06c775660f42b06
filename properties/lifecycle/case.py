"""What a lifecycle property is run on: an engine's shape, who comes when, and who leaves; integers only."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.codec import case_type
from properties.lifecycle.engine import Mode, Served, Shape, engine_of
from properties.property import Subject

NAME = "random-skip"
MODES: tuple[Mode, ...] = ("routed", "by-request", "dense")
# pools too small for all that run at once, so that KV is taken from some and computed again
SHAPES = (
    Shape(page_size=1, chunk=16, tokens=48, running=4, overlap=False, mixed=False),
    Shape(page_size=1, chunk=8, tokens=44, running=4, overlap=True, mixed=False),
    Shape(page_size=1, chunk=16, tokens=48, running=4, overlap=True, mixed=True),
    Shape(page_size=1, chunk=8, tokens=44, running=4, overlap=False, mixed=True),
    Shape(page_size=16, chunk=16, tokens=96, running=4, overlap=False, mixed=True),
    Shape(page_size=16, chunk=32, tokens=96, running=4, overlap=True, mixed=False),
    Shape(page_size=64, chunk=64, tokens=256, running=4, overlap=True, mixed=False),
)
# numbers of user keys; the last stands for the key under which the engine files the request before
USERS = (None, "", "a", "b")
FORGED = len(USERS)


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request that comes at iteration `at`. Its prompt: `shared` tokens of common prefix number `prefix`, or all that
    request number `after` has been given and has said so far, then `own` tokens of its own. user: number of its key."""

    at: int
    prefix: int
    shared: int
    own: int
    outputs: int
    after: int | None = None
    user: int = 0


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Request number `request` is given up at iteration `at`, if it is under way then."""

    at: int
    request: int


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """random-skip with rate eighths / 8 over the last `thirds` thirds of the routed layers. by_token: keyed by the
    row's token, so that equal prefixes may be shared. mode: number in MODES. weights: as in Served."""

    eighths: int = 4
    thirds: int = 2
    by_token: bool = False
    mode: int = 0
    seed: int = 0
    weights: int = 0

    def served(self) -> Served:
        return Served(policy=NAME, settings=self.settings, mode=MODES[self.mode], seed=self.seed, weights=self.weights)

    @property
    def settings(self) -> dict[str, object]:
        return {
            "r": self.eighths / 8,
            "d": self.thirds / 3,
            "seed": self.seed,
            "key": "token" if self.by_token else "request",
            "projector": "checkpoint",
        }


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class LifeCase:
    """One run of the loop. seed: of tokens and names. run: how many came before it on the same engine."""

    shape: Shape
    rules: Rules
    arrivals: tuple[Arrival, ...]
    departures: tuple[Departure, ...] = ()
    seed: int = 0
    run: int = 0

    def name(self, number: int) -> str:
        return f"r{number}-{self.seed}-{self.run}"


def shapes(subject: Subject) -> SearchStrategy[Shape]:
    """Those that the engine can take."""
    engine = engine_of(subject)
    return st.sampled_from([shape for shape in engine.shapes or SHAPES if engine.overlaps or not shape.overlap])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the parts of a request are drawn from: tokens of the common prefix, of its own, and of its answer."""

    shared: tuple[int, ...]
    own: tuple[int, ...]
    outputs: tuple[int, ...]


# by page size: lengths beside the edges of pages and chunks
ANY = {
    1: Sizes(shared=(0, *range(4, 13)), own=(1, 2, 7, 8, 9, 10), outputs=tuple(range(1, 19))),
    16: Sizes(shared=(0, 13, 15, 16, 17), own=(1, 2, 7, 8, 9, 10), outputs=tuple(range(1, 19))),
    64: Sizes(shared=(0, 61, 63, 64, 65), own=(1, 2, 3, 4), outputs=tuple(range(1, 11))),
}
# little to start with and much to come: several of them outgrow the pool together
CROWD = {
    1: Sizes(shared=(0, 4, 6), own=(1, 2, 4), outputs=(14, 15, 16, 18)),
    16: Sizes(shared=(0, 11, 13), own=(1, 2, 3), outputs=(15, 16, 17, 18)),
    64: Sizes(shared=(59, 60, 61), own=(1, 2, 3), outputs=(7, 8, 10)),
}


@st.composite
def arrivals(
    draw: DrawFn, shape: Shape, *, users: bool = False, crowded: bool = False, most: int = 6, span: int = 9
) -> tuple[Arrival, ...]:
    """One or more, in the order in which they come; crowded: more than the pool holds to their ends."""
    crowd = crowded or draw(st.integers(0, 2)) > 0
    sizes = (CROWD if crowd else ANY)[shape.page_size]
    if crowd:
        # one by one: of what comes together the engine takes no more than can end; those behind go on from them
        count, later = draw(st.integers(3, most)), draw(st.lists(st.integers(16, 40), max_size=2))
        times = [*(2 * number for number in range(count)), *sorted(later)]
    else:
        count = 1
        times = sorted(draw(st.lists(st.integers(0, span), min_size=1, max_size=most)))
    return tuple(
        Arrival(
            at=at,
            prefix=draw(st.integers(0, 1)),
            shared=draw(st.sampled_from(sizes.shared)),
            own=draw(st.sampled_from(sizes.own)),
            outputs=draw(st.sampled_from(sizes.outputs)),
            after=draw(st.one_of(st.none(), st.integers(0, number - 1))) if number >= count else None,
            user=draw(st.integers(0, FORGED)) if users and draw(st.booleans()) else 0,
        )
        for number, at in enumerate(times)
    )


@st.composite
def life_cases(
    draw: DrawFn,
    subject: Subject,
    *,
    modes: tuple[int, ...] = (0, 1),
    by_token: tuple[bool, ...] = (False, True),
    users: bool = False,
    eighths: tuple[int, ...] = (3, 5),
    thirds: tuple[int, ...] = (1, 2, 3),
    crowded: bool = False,
) -> LifeCase:
    """A run in which some requests may be given up."""
    shape = draw(shapes(subject))
    come = draw(arrivals(shape, users=users, crowded=crowded))
    leave = draw(st.lists(st.tuples(st.integers(0, len(come) - 1), st.integers(1, 12)), max_size=2))
    return LifeCase(
        shape=shape,
        rules=Rules(
            eighths=draw(st.sampled_from(eighths)),
            thirds=draw(st.sampled_from(thirds)),
            by_token=draw(st.sampled_from(by_token)),
            mode=draw(st.sampled_from(modes)),
            seed=draw(st.integers(0, 3)),
        ),
        arrivals=come,
        departures=tuple(Departure(request=number, at=come[number].at + later) for number, later in leave),
        seed=draw(st.integers(0, 63)),
    )


@st.composite
def chain_cases(draw: DrawFn, subject: Subject) -> LifeCase:
    """Requests one after the other, each of which goes on from one before it, mostly where a page is a slot, so that a
    few tokens more can be shared."""
    shape = draw(shapes(subject).filter(lambda shape: shape.page_size == 1) | shapes(subject))
    sizes = ANY[shape.page_size]
    count = draw(st.integers(3, 4))
    come = tuple(
        Arrival(
            at=20 * number,
            prefix=0,
            shared=draw(st.sampled_from(sizes.shared)),
            own=draw(st.integers(1, 2)),
            outputs=draw(st.integers(4, 10)),
            after=draw(st.integers(0, number - 1)) if number else None,
        )
        for number in range(count)
    )
    rules = Rules(
        by_token=True,
        mode=1,
        seed=draw(st.integers(0, 3)),
        thirds=draw(st.integers(1, 3)),
    )
    return LifeCase(shape=shape, rules=rules, arrivals=come, seed=draw(st.integers(0, 63)))
