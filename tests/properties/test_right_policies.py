"""Policies that keep what they promise pass whatever judges policy and model, or are said not to promise it."""

from __future__ import annotations

import pytest

from conformance.subjects import SubjectSpec, build_subject
from properties.property import Property
from properties.registry import CORE
from properties.run import run_property
from tests.properties import right_policies

JUDGED = [rule for rule in CORE if rule.scope != "structure"]
RANDOM = {
    "policy.deterministic": "not_declared_deterministic",
    "policy.batch_invariant": "not_declared_batch_invariant",
    "policy.chunk_invariant": "not_declared_chunk_invariant",
    "policy.prefix_determined": "not_declared_prefix_determined",
    "model.routes": "not_declared_deterministic",
}
UNSUPPORTED = {
    "HonestlyRandom": RANDOM,
    "RandomByDefault": RANDOM
    | dict.fromkeys(("policy.batch_invariant", "policy.chunk_invariant"), "not_declared_deterministic"),
    "DecodeOnly": {},
    "PrefillOnly": {},
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.parametrize("rule", JUDGED, ids=lambda rule: rule.id)
def test_a_right_policy_is_granted(name: str, rule: Property) -> None:
    policy = f"{right_policies.__name__}:{name}"
    subject = build_subject(SubjectSpec(runtime="torch", model="tiny-llama", policy=policy))
    outcome = run_property(rule, subject, examples=rule.examples, seed=0)
    lacking = UNSUPPORTED[name].get(rule.id, "")
    assert (outcome.status, outcome.detail) == ("unsupported" if lacking else "passed", lacking), outcome
