"""The frozen line of a violation."""

from __future__ import annotations

import shlex

from properties.violation import Violation


def test_a_value_with_spaces_is_quoted_and_a_program_can_split_the_line() -> None:
    facts = {"rows": (1, 2), "expected": "work that stays", "got": "", "error": ValueError('say "no"'), "step": 3}
    line = Violation("KV-1", "missing_write", facts).line()
    assert line.startswith("clause=KV-1 reason=missing_write rows=(1,2) ")
    words = dict(word.split("=", 1) for word in shlex.split(line))
    assert words["expected"] == "work that stays"
    assert words["got"] == ""
    assert words["error"] == 'say "no"'
