"""The routes that random-skip must take, in closed form, for a request with its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from properties.lifecycle.case import Rules
from properties.lifecycle.engine import History, LifecycleEngine, Ran
from properties.lifecycle.reference_alone import Actions
from reference.random_skip import action, digest, selected, token_digest

Plan = tuple[str, str]
DENSE: Plan = ("dense", "dense")


def plan_of(ran: Ran) -> Plan:
    """The plan under which its last pass ran."""
    return (ran.plans[-1] if ran.plans else None) or DENSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """In which mode each row of a request runs. plan: of its prefill and of its decode. prompt: how many tokens it has.
    fallen: positions of decode rows that run dense whatever the plan says."""

    plan: Plan
    prompt: int
    fallen: frozenset[int] = frozenset()

    def at(self, position: int) -> str:
        return "dense" if position in self.fallen else self.plan[position >= self.prompt]


def fallen_rows(history: History, engine: LifecycleEngine) -> Mapping[str, frozenset[int]]:
    """By request, the positions of rows that a decode pass had which the engine cannot route: they run dense, also when
    they are computed again."""
    found: dict[str, set[int]] = {name: set() for name in history.requests}
    for each in history.passes:
        if each.decode and not engine.covers(len(each.rows)):
            for row in each.rows:
                found[row.request].add(row.position)
    return {name: frozenset(positions) for name, positions in found.items()}


def expected_routes(rules: Rules, routed_layers: int, name: str, tokens: Sequence[int], modes: Modes) -> list[Actions]:
    """One entry a token; None where the row runs dense."""
    return [
        None if modes.at(position) == "dense" else _route(rules, routed_layers, name, token, position)
        for position, token in enumerate(tokens)
    ]


def _route(rules: Rules, routed_layers: int, name: str, token: int, position: int) -> tuple[int, ...]:
    key = token_digest(token) if rules.by_token else digest(name)
    chosen = selected(key, position, rules.seed, rules.eighths / 8)
    return tuple(
        action(index, routed_layers, is_selected=chosen, depth=rules.thirds / 3) for index in range(routed_layers)
    )
