"""A case's text gives back the case, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from properties.case import ScheduleCase
from properties.codec import case_type, decode, encode
from properties.property import Property
from properties.registry import CORE
from properties.run import draw_cases
from reference.plan import Chunk, PoolLayout, StepPlan, TapePlan
from tests.properties.tiny_subject import subject_of
from vskipper.errors import InputError

CASE = ScheduleCase(
    layout=PoolLayout(page_size=16, pages=3, kv_dtype="bfloat16", k_scale=0.5),
    steps=(StepPlan(chunks=(Chunk(request="r0", tokens=(5, 6), start=0, pages=(2,), phase="prefill"),), padding=1),),
    tapes=(TapePlan(actions=((3, 0),), eighths=((8, 0),)),),
)


@pytest.mark.parametrize("property", CORE, ids=lambda property: property.id)
def test_every_case_comes_back(property: Property) -> None:
    for case in draw_cases(property, subject_of(), 8, 3):
        assert decode(encode(case)) == case


def test_text_is_short_and_safe_in_a_shell() -> None:
    text = encode(CASE)
    assert text.startswith("v1.") and len(text) < 250
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


@pytest.mark.parametrize("text", ["", "v2.AAAA", "v1.", "v1.!!!!", "v1.AAAA", encode(CASE)[:-9], "v1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="case text"):
        decode(text)


def test_an_unknown_type_is_refused_by_name() -> None:
    @dataclass(frozen=True)
    class Stranger:
        number: int

    with pytest.raises(TypeError, match="Stranger"):
        encode(Stranger(1))


def test_a_name_is_taken_once() -> None:
    @dataclass(frozen=True)
    class ScheduleCase:
        number: int

    with pytest.raises(TypeError, match="ScheduleCase"):
        case_type(ScheduleCase)
