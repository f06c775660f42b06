"""The routes that random-skip must take, in closed form, for a request with its plan."""

from __future__ import annotations

from collections.abc import Sequence

from properties.lifecycle.case import Rules
from properties.lifecycle.reference_alone import Actions
from reference.random_skip import action, digest, selected, token_digest

Plan = tuple[str, str]
DENSE: Plan = ("dense", "dense")


def expected_routes(
    rules: Rules, routed_layers: int, name: str, tokens: Sequence[int], prompt: int, plan: Plan
) -> list[Actions]:
    """One entry a token; None where the plan has the row run dense."""
    return [
        None if plan[position >= prompt] == "dense" else _route(rules, routed_layers, name, token, position)
        for position, token in enumerate(tokens)
    ]


def _route(rules: Rules, routed_layers: int, name: str, token: int, position: int) -> tuple[int, ...]:
    key = token_digest(token) if rules.by_token else digest(name)
    chosen = selected(key, position, rules.seed, rules.eighths / 8)
    return tuple(
        action(index, routed_layers, is_selected=chosen, depth=rules.thirds / 3) for index in range(routed_layers)
    )
