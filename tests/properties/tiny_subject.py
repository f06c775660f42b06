"""Subjects on tiny models for the tests of the properties: FlexiDepth on the reference runtime, or on a broken one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from conformance.subjects import SubjectSpec, build_subject
from properties.property import Subject
from properties.runtime import Runtime

Spoil = Callable[[Any], Any]


@lru_cache(maxsize=4)
def _built(model: str) -> Subject:
    return build_subject(SubjectSpec(runtime="reference", model=model))


def subject_of(
    model: str = "tiny-llama", *, runtime: Runtime | None = None, spoil: Spoil | None = None, name: str = "flexidepth"
) -> Subject:
    """spoil: turns the FlexiDepth policy into the one under test."""
    built = _built(model)

    def make_policy(dtype: torch.dtype, device: str = "cpu") -> Any:
        policy = built.make_policy(dtype, device)
        return policy if spoil is None else spoil(policy)

    return replace(built, runtime=runtime or built.runtime, make_policy=make_policy, policy_name=name, seen=Counter())
