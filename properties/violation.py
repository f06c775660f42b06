"""A broken clause, as one frozen line for programs and a few lines for people."""

from __future__ import annotations

import json
from collections.abc import Mapping


class Violation(AssertionError):
    """clause: of the contract (KV-2). reason: one snake_case word group that a fault can name exactly.
    facts: where and what, in the order they are printed."""

    def __init__(self, clause: str, reason: str, facts: Mapping[str, object] | None = None) -> None:
        self.clause = clause
        self.reason = reason
        self.facts = dict(facts or {})
        super().__init__(self.line())

    def line(self) -> str:
        # the format is read by programs: keys in this order, a value with a space in it as a JSON string
        pairs = {"clause": self.clause, "reason": self.reason, **self.facts}
        return " ".join(f"{key}={_word(value)}" for key, value in pairs.items())


def _word(value: object) -> str:
    text = str(value).replace(" ", "") if isinstance(value, tuple | list | dict) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c.isspace() or c == '"' for c in text) else text
