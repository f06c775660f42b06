"""Subjects: what is shared between two of them, and what is not."""

from __future__ import annotations

import pytest

from conformance.subjects import SubjectSpec, build_subject
from properties.oracle import oracle_of
from properties.registry import by_id
from properties.run import run_property
from vskipper.errors import InputError


def test_equal_names_share_their_oracle_and_other_settings_do_not() -> None:
    zero = SubjectSpec(runtime="torch", model="tiny-llama", policy="random-skip")
    named = SubjectSpec(runtime="torch", model="tiny-llama", policy="random-skip", settings={"projector": "checkpoint"})
    assert oracle_of(build_subject(zero)) is oracle_of(build_subject(zero))
    assert oracle_of(build_subject(zero)) is not oracle_of(build_subject(named))
    for spec in (zero, named):
        outcome = run_property(by_id("model.outputs"), build_subject(spec), examples=4, seed=1)
        assert outcome.status == "passed", outcome


@pytest.mark.parametrize(
    ("change", "expected"),
    [({"runtime": "vllm"}, "reference, torch, triton, sglang"), ({"policy": "nope"}, "random-skip")],
)
def test_an_unknown_name_is_refused_with_the_known_ones(change: dict[str, str], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        build_subject(SubjectSpec(**{"runtime": "torch", "model": "tiny-llama"} | change))
