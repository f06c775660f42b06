"""The contract as data: complete, ordered, and each clause of a level that exists."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.clauses import CLAUSE_BY_ID, CLAUSES, LEVEL_BY_ID, LEVELS


def test_every_clause_is_unique_and_belongs_to_a_level() -> None:
    assert len(CLAUSE_BY_ID) == len(CLAUSES) == 28
    for clause in CLAUSES:
        assert re.fullmatch(r"[A-Z]+-\d", clause.id)
        assert clause.levels and set(clause.levels) <= set(LEVEL_BY_ID)
        assert clause.text and not clause.text.endswith(".")


def test_levels_rise_in_order_and_core_is_what_a_cpu_can_decide() -> None:
    assert [level.title for level in LEVELS] == ["Core", "Graph", "Lifecycle", "Serving", "TP"]
    assert [clause.id for clause in LEVEL_BY_ID["core"].clauses] == [
        *("KV-1", "KV-2", "KV-3", "KV-4", "MAP-1", "MAP-2", "MAP-3", "SEM-1", "SEM-2", "SEM-3", "SEM-4"),
        *("GRAPH-3", "POL-1", "POL-2", "WORK-1", "IN-1"),
    ]


def test_the_document_has_every_clause() -> None:
    document = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z]+-\d) \| (.*?) \| (.*) \|$", document, re.MULTILINE)
    titles = {clause.id: ", ".join(LEVEL_BY_ID[level].title for level in clause.levels) for clause in CLAUSES}
    assert rows == [(clause.id, titles[clause.id], clause.text) for clause in CLAUSES]


def test_no_level_is_empty() -> None:
    assert all(level.clauses for level in LEVELS)
