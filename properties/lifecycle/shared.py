"""What requests may share, told by a set of what each has computed: a second opinion on the engine's prefix cache."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from properties.lifecycle.case import Rules
from properties.lifecycle.engine import FINISHED, History, Ran
from properties.lifecycle.paths import Path, paths
from properties.lifecycle.routes import plan_of

# user key, mode of the prefill, and what decides the routes or whose they alone are
Namespace = tuple[str | None, str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Tokens that the cache may hold from run `run`, iteration `at` on. certain: it does, unless it has evicted them.
    own: false for a second mode's tokens, which may stand in no namespace."""

    run: int
    at: int
    request: str
    namespace: Namespace
    tokens: tuple[int, ...]
    certain: bool
    own: bool = True


def namespace_of(ran: Ran, rules: Rules, run: int, user_key: str | None) -> Namespace:
    """Dense prefixes depend on no policy; a policy that looks at more than the tokens shares with nobody."""
    mode = plan_of(ran)[0]
    if mode == "dense":
        return (user_key, mode, None)
    return (user_key, mode, rules_identity(rules) if rules.by_token else (run, ran.name))


def rules_identity(rules: Rules) -> object:
    """What decides the routes and the projector of rows."""
    return (rules.eighths, rules.thirds, rules.by_token, rules.seed, rules.weights)


def entries(
    history: History,
    rules: Rules,
    run: int,
    keys: Mapping[str, str | None],
    overlap: bool,
    fallen: Mapping[str, frozenset[int]],
) -> Iterable[Entry]:
    """All that the requests of one run may have left in the cache. fallen: positions of their decode rows that ran
    dense whatever the plan says."""
    for name, way in paths(history).items():
        ran = history.requests[name]
        own = namespace_of(ran, rules, run, keys[name])
        yield from _entries(ran, way, own, history, run, overlap, fallen[name])


def _entries(
    ran: Ran, way: Path, namespace: Namespace, history: History, run: int, overlap: bool, fallen: frozenset[int]
) -> Iterable[Entry]:
    tokens = (*ran.prompt, *ran.outputs)
    prefill, decode = plan_of(ran)
    falls = decode == "routed" and bool(fallen)
    # positions of one mode, from the first on
    alike = len(ran.prompt) if prefill != decode else min(fallen) if falls else sys.maxsize
    for number, turn in enumerate(way):
        # after a retraction a request of two modes computes both of them in one go, for itself alone
        private = number > 0 and (prefill != decode or alike < way[number - 1][-1].end)
        for piece in turn:
            at = history.passes[piece.step].iteration + 1
            same = min(piece.end, alike)
            entry = Entry(run=run, at=at, request=ran.name, namespace=namespace, tokens=tokens[:same], certain=False)
            # decoded tokens come in when the request ends, for certain if it ends by itself
            ended = number == len(way) - 1 and piece is turn[-1] and ran.finish in FINISHED and not falls
            if not private:
                yield entry
                if number == 0 and (piece.end <= len(ran.prompt) or ended):
                    known = min(same, len(tokens) - 1 if ended else len(ran.prompt))
                    late = at + overlap + (piece.end > len(ran.prompt))
                    yield replace(entry, at=late, tokens=tokens[:known], certain=True)
            if private or same < piece.end:
                yield replace(entry, tokens=tokens[: piece.end], own=False)


def longest(tokens: tuple[int, ...], found: Iterable[Entry], page_size: int) -> int:
    """Of the tokens, how many one of the entries begins with: whole pages, and never all of them."""
    best = max((_common(tokens, entry.tokens) for entry in found), default=0)
    return min(best, len(tokens) - 1) // page_size * page_size


def _common(one: tuple[int, ...], two: tuple[int, ...]) -> int:
    for index, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return index
    return min(len(one), len(two))


def first_eviction(history: History, page_size: int) -> int:
    """The first iteration in which the tree lost a page, be it to a row of the same iteration; one past the last where
    none did. An engine may choose between pages that were used last at the same time as it likes."""
    trees = {account.iteration: set(account.tree) for account in history.accounts}
    lost = [number for number, tree in trees.items() if not trees.get(number - 1, set()) <= tree]
    taken = [
        each.iteration
        for each in history.passes
        if any(row.slot // page_size in trees.get(each.iteration - 1, ()) for row in each.rows)
    ]
    return min([*lost, *taken], default=len(history.accounts) + 1)
