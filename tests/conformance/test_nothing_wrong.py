"""The kill matrix's control: with no fault in force no property finds anything, over twenty seeds."""

from __future__ import annotations

from typing import Literal

import pytest

from conformance.subjects import SubjectSpec, build_subject
from properties.registry import CORE
from properties.run import draw_cases, first_violation

CASES = 3


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("model", ["tiny-llama", "tiny-qwen3"])
def test_no_property_is_killed(model: Literal["tiny-llama", "tiny-qwen3"], seed: int) -> None:
    subject = build_subject(SubjectSpec(runtime="torch", model=model))
    for rule in CORE:
        violation = first_violation(rule, subject, draw_cases(rule, subject, CASES, seed))
        assert violation is None, f"{rule.id}: {violation}"
