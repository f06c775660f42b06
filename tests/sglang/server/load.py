"""Two hundred requests of mixed length, made from a seed: many begin alike, and together they outgrow the KV pool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.runtimes.sglang.server.messages import Answer, Refused, Request
from conformance.runtimes.sglang.server.metrics import Samples
from conformance.runtimes.sglang.server.process import Server

COUNT = 200
VOCABULARY, END = 128, 2
# slots of the pool, rows of a chunk and requests at once: several short prompts are let in and then outgrow the pool
POOL, CHUNK, RUNNING = 96, 16, 8
PREFIXES = 6
AT_ONCE = 32
ARGUMENTS = (
    *("--max-total-tokens", str(POOL)),
    *("--chunked-prefill-size", str(CHUNK)),
    *("--max-running-requests", str(RUNNING)),
    *("--mem-fraction-static", "0.5"),
    "--enable-metrics",
    # an idle server leaves the machine to the oracle
    "--sleep-on-idle",
)
# admit as if requests would end at once, and learn nothing from having taken one off
VARIABLES = (
    ("SGLANG_INIT_NEW_TOKEN_RATIO", "0.7"),
    ("SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR", "0"),
    ("SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS", "1"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests and what became of them, in one order; metrics before and after."""

    asked: tuple[Request, ...]
    told: tuple[Answer | Refused, ...]
    before: Samples
    after: Samples

    @property
    def pairs(self) -> list[tuple[Request, Answer]]:
        """Requests that were answered."""
        both = zip(self.asked, self.told, strict=True)
        return [(request, answer) for request, answer in both if isinstance(answer, Answer)]

    @property
    def refused(self) -> dict[str | None, Refused]:
        """By name."""
        both = zip(self.asked, self.told, strict=True)
        return {request.name: error for request, error in both if isinstance(error, Refused)}

    def grown(self, name: str, **labels: str) -> float:
        """By how much a counter did."""
        return self.after.total(name, **labels) - self.before.total(name, **labels)


def ask(server: Server, asked: Sequence[Request], *, at_once: int = AT_ONCE) -> Load:
    """All of them, `at_once` under way at any time."""
    before = server.client.metrics()
    told = server.client.generate_all(asked, at_once=at_once)
    return Load(asked=tuple(asked), told=tuple(told), before=before, after=server.client.metrics())


def requests(seed: int, label: str) -> list[Request]:
    """Named `label` and a number. Prompts of 4 to 60 tokens, outputs of 2 to 24; every other prompt begins with one of
    PREFIXES common prefixes, whose users come in a row."""
    draw = random.Random(seed)
    prefixes = [tokens(draw, draw.randint(5, 24)) for _ in range(PREFIXES)]
    made = []
    for number in range(COUNT):
        shared = prefixes[number // 8 % PREFIXES] if number % 2 else ()
        own = draw.choice((draw.randint(4, 12), draw.randint(4, 12), draw.randint(13, 36)))
        outputs = draw.choice((draw.randint(2, 24), 24))
        prompt = shared + tokens(draw, own)
        made.append(Request(tokens=prompt, outputs=outputs, name=f"{label}-{number}", may_end=True))
    return made


def tokens(draw: random.Random, count: int) -> tuple[int, ...]:
    """Ids below the tiny models' vocabulary."""
    return tuple(draw.randrange(VOCABULARY) for _ in range(count))
