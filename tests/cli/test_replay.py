"""`vskipper replay`: a word may come from anywhere, and is refused in one line unless the suite made it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from conformance import replay_word
from conformance.case_fields import misfit
from conformance.certificate.schemas import FOLDER
from conformance.faults.registry import FAULTS_OF
from conformance.replay_blob import ReplayBlob
from conformance.replay_word import LIMIT, pack, unpack
from conformance.subjects import DTYPES, SubjectSpec, build_subject
from properties import codec
from properties.case import Context, ScheduleCase
from properties.codec import encode
from properties.registry import PROPERTIES
from properties.run import draw_cases
from reference.plan import PoolLayout, TapePlan
from tests.cli.conftest import Cli
from vskipper.errors import InputError

SPEC: dict[str, Any] = {"runtime": "torch", "model": "tiny-llama"}
RAW: dict[str, Any] = {"property": "kv.complete", "spec": SPEC, "case": "v1.x", "fault": None, "seed": 0}
SCHEDULE = ScheduleCase(layout=PoolLayout(page_size=1, pages=4), steps=(), tapes=())


def spec(**values: object) -> dict[str, Any]:
    return RAW | {"spec": SPEC | values}


def test_what_the_suite_makes_is_read_back() -> None:
    made = SubjectSpec(runtime="torch", model="tiny-llama", settings={"r": 0.5}, delta="d.pt")
    blob = ReplayBlob(property="kv.complete", spec=made, case="v1.x", fault="kv-last-row-dropped", seed=7)
    assert ReplayBlob.decode(blob.encode()) == blob


def test_every_property_fault_and_dtype_of_the_suite_is_known() -> None:
    for property in (property for level in PROPERTIES.values() for property in level):
        unpack(pack(RAW | {"property": property.id}))
    for fault in (fault for level in FAULTS_OF.values() for fault in level):
        unpack(pack(RAW | {"fault": fault.id}))
    schema = json.loads((FOLDER / "replay.schema.json").read_text())
    assert schema["properties"]["spec"]["properties"]["dtype"]["enum"] == list(DTYPES)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (RAW | {"case": 5}, "case: 5 is not of type 'string'"),
        (RAW | {"property": ["a"]}, "property: ['a'] is not"),
        (RAW | {"fault": 1}, "fault: 1 is not"),
        (RAW | {"seed": -1}, "seed: -1 is less"),
        (RAW | {"more": 1}, "'more' was unexpected"),
        ({"property": "kv.complete"}, "'spec' is a required property"),
        ([], "top: [] is not of type 'object'"),
        (spec(model=7), "spec.model: 7 is not"),
        (spec(runtime=["x"]), "spec.runtime: ['x'] is not"),
        (spec(policy=None), "spec.policy: None is not"),
        (spec(settings=[1]), "spec.settings: [1] is not of type 'object'"),
        (spec(settings="ab"), "spec.settings: 'ab' is not of type 'object'"),
        (spec(dtype={}), "spec.dtype: {} is not one of"),
        (spec(more=1), "'more' was unexpected"),
        (RAW | {"fault": "kv-last-row"}, r"unknown fault [fault of BLOB]: got 'kv-last-row', expected one of"),
        (RAW | {"property": "kv.x"}, r"unknown property [property of BLOB]: got 'kv.x', expected one of"),
        (spec(runtime="nope"), "unknown runtime [runtime of BLOB]: got 'nope', expected reference, torch"),
    ],
)
def test_a_word_of_another_shape_says_where(raw: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        unpack(pack(raw))
    assert told in str(caught.value) and len(str(caught.value)) < 500


def test_an_engine_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.runtime_names.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"no SGLang \[runtime of BLOB\]"):
        unpack(pack(spec(runtime="sglang")))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[" * 9_000_000, f"more than {LIMIT} bytes"),
        ("[" * 900_000, "not JSON: maximum recursion depth"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": 1, "a": 1}', "a key stands twice"),
    ],
)
def test_content_that_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, content: str, told: str) -> None:
    monkeypatch.setattr(replay_word.json, "dumps", lambda raw, **options: content)
    word = pack({})
    with pytest.raises(InputError, match=told):
        unpack(word)


@pytest.mark.parametrize("word", ["", "r1", "r1.", "r2.abc", "r1.abc", "r1.\u00e9", pack(RAW)[:-9], "r1.eJxLBAAAYgBi"])
def test_what_is_no_word_is_refused(word: str) -> None:
    with pytest.raises(InputError, match=r"replay word \[BLOB\]"):
        unpack(word)


def test_a_word_is_refused_before_anything_heavy_is_imported(cli: Cli, without_torch: Path) -> None:
    for word, told in (("nonsense", "not a replay word"), (pack(RAW | {"fault": "x"}), "unknown fault")):
        done = cli("replay", word, path=(without_torch,))
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and told in done.stderr


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("v1." + pack({}).partition(".")[2], "case text"),
        (encode((1, 2)), "case of kv.complete]: got tuple, expected ScheduleCase"),
        (encode(ScheduleCase(layout=PoolLayout(page_size=1, pages="4"), steps=(), tapes=())), "pages: a str"),  # type: ignore[arg-type]
    ],
)
def test_a_case_of_another_shape_is_refused_and_leaves_nothing_behind(
    cli: Cli, home: Path, case: str, told: str
) -> None:
    done = cli("replay", pack(RAW | {"case": case}))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert told in done.stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (SCHEDULE, None),
        (ScheduleCase(layout=SCHEDULE.layout, steps=(), tapes=(TapePlan(actions=((0,),)),)), None),
        (5, "case: a int"),
        (ScheduleCase(layout=SCHEDULE.layout, steps=5, tapes=()), "case.steps: a int"),  # type: ignore[arg-type]
        (ScheduleCase(layout=SCHEDULE.layout, steps=(), tapes=(SCHEDULE,)), "case.tapes[0]: a ScheduleCase"),  # type: ignore[arg-type]
        (ScheduleCase(layout=SCHEDULE.layout, steps=(), tapes=(), seed=1 << 70), "case.seed: an integer of 71 bits"),
        (ScheduleCase(layout=SCHEDULE.layout, steps=(), tapes=(), seed=True), "case.seed: a bool"),
        (
            ScheduleCase(
                layout=SCHEDULE.layout,
                steps=(),
                tapes=(),
                contexts=(Context(request="a", length=1, pages=("x",), step=0),),  # type: ignore[arg-type]
            ),
            "case.contexts[0].pages[0]: a str",
        ),
    ],
)
def test_a_field_that_holds_something_else_is_named(value: Any, told: str | None) -> None:
    assert misfit(value, ScheduleCase, "case") == told


def test_what_every_case_type_declares_can_be_looked_up() -> None:
    assert {"GraphCase", "FarCase", "ShownCase", "LifeCase", "SwapCase", "BadInput"} <= codec._TYPES.keys()
    for cls in codec._TYPES.values():
        # a value of no type at all fits no field
        blank = object.__new__(cls)
        for field in fields(cls):
            object.__setattr__(blank, field.name, object())
        told = misfit(blank, cls, "case")
        assert told is not None and told.endswith(": a object"), cls


def test_what_is_drawn_fits() -> None:
    subject = build_subject(SubjectSpec(runtime="reference", model="tiny-llama"))
    for property in PROPERTIES["core"]:
        for case in draw_cases(property, subject, 2, 0):
            assert misfit(codec.decode(encode(case)), type(case), "case") is None, property.id
