"""Policies are found by name or class; what is wrong with one is said in one line."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.policies import broken
from tests.policies.batches import context, router_tensors
from vskipper.action import Action
from vskipper.errors import InputError, PolicyError
from vskipper.policies.random_skip import RandomSkip
from vskipper.policy import PolicyCapabilities, SkipPolicy
from vskipper.registry.lookup import BUILT_IN, GROUP, Registry, load_policy, policy_registry

BROKEN = "tests.policies.broken"
FILE = broken.__file__


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(FILE).read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_policies_are_policies(name: str) -> None:
    assert isinstance(load_policy(name, context(tensors=router_tensors())), SkipPolicy)


def test_settings_reach_the_policy() -> None:
    policy = load_policy("random-skip", context(), {"r": 1, "d": 1.0, "key": "token"})
    assert isinstance(policy, RandomSkip)
    assert policy.capabilities.prefix_determined


def test_a_class_by_its_module() -> None:
    policy = load_policy(f"{BROKEN}:Fair", context(), {"threshold": 0.5})
    assert isinstance(policy, broken.Fair)
    assert policy.threshold == 0.5


def test_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError) as caught:
        load_policy("random-skp", context())
    assert all(name in str(caught.value) for name in (*BUILT_IN, "random-skp", "package.module:Class"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("no_such_module:Policy", "No module named 'no_such_module'"),
        (f"{BROKEN}:Absent", f"no 'Absent', expected a class in {FILE}"),
        (f"{BROKEN}:Fair.inner", "no 'inner'"),
        (f"{BROKEN}:NOT_A_CLASS", "policy is no class"),
    ],
)
def test_a_class_that_is_not_there(spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_policy(spec, context())


def test_a_module_that_fails_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_policy.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="RuntimeError: no licence"):
        load_policy("failing_policy:P", context())
    assert "failing_policy" not in sys.modules


def test_a_module_that_leaves_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaving_policy.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"policy leaving_policy:P.*got SystemExit, expected module 'leaving_policy'"):
        load_policy("leaving_policy:P", context())


@pytest.mark.parametrize(
    ("name", "hook", "line", "got", "expected"),
    [
        ("MissingRoute", "route", "class MissingRoute", "no such method", "route(layer, x, state)"),
        ("MissingProject", "project", "class MissingProject", "no such method", "project(layer, y, state)"),
        ("MissingSecond", "route_mlp", "class MissingSecond", "no such method", "route_mlp(layer, y, state)"),
        ("UndeclaredSecond", "route_mlp", "def route_mlp", "timing layer", "timing mid_layer, or no such hook"),
        ("MissingCapabilities", "capabilities", "class MissingCapabilities", "nothing", "PolicyCapabilities"),
        (
            "OtherParameters",
            "route",
            "def route(self, layer: int, x: Tensor) ->",
            "route(layer: 'int'",
            "route(layer, x",
        ),
        ("NoContext", "__init__", "class NoContext", "()", "(context, **settings)"),
        ("RaisesWhenMade", "__init__", 'raise KeyError("no such tensor")', "KeyError", "a policy"),
        ("LeavesWhenMade", "__init__", 'sys.exit("no licence")', "SystemExit: no licence", "a policy"),
        ("RaisesWhenAsked", "capabilities", 'declared["promises"]', "KeyError: 'promises'", "PolicyCapabilities"),
        ("LacksWhenAsked", "capabilities", "().promises", "AttributeError", "PolicyCapabilities"),
    ],
)
def test_a_broken_class(name: str, hook: str, line: str, got: str, expected: str) -> None:
    spec = f"{BROKEN}:{name}"
    with pytest.raises(PolicyError) as caught:
        load_policy(spec, context())
    error = caught.value
    assert (error.policy, error.hook, error.location) == (spec, hook, f"{FILE}:{line_of(line)}")
    assert got in error.got
    assert expected in error.expected
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ("random-skip", {"q": 1}, "unknown setting .*'q', expected one of r, d, seed, key, projector"),
        ("flexidepth", {"r": 1}, "expected no settings"),
        ("random-skip", {"r": "0.5"}, "setting r.*got '0.5', expected float"),
        ("random-skip", {"seed": True}, "setting seed.*expected int"),
        ("random-skip", {"key": "row"}, "setting key.*Literal"),
        ("early-exit", {"exit_layer": "3"}, "setting exit_layer.*int | None"),
        ("random-skip", {"d": 1.5}, "setting d.*a number from 0 to 1"),
        (f"{BROKEN}:Required", {}, "setting is missing.*path"),
        (f"{BROKEN}:Required", {"path": 3}, "expected str"),
    ],
)
def test_settings_that_do_not_fit(spec: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_policy(spec, context(), settings)


def test_none_where_the_signature_allows_it() -> None:
    load_policy("early-exit", context(), {"exit_layer": None})


DECLARED: list[tuple[str, Any, str]] = [
    ("actions", frozenset(), "a set of Action"),
    ("actions", (Action.RUN,), "a set of Action"),
    ("actions", frozenset({3}), "a set of Action"),
    ("actions", frozenset({Action.SKIP_MLP}), "RUN among them"),
    ("phases", frozenset(), "a set of Phase"),
    ("phases", frozenset({0}), "a set of Phase"),
    ("gate_modes", frozenset(), "a set of GateMode"),
    ("gate_modes", "hard", "a set of GateMode"),
    ("gate_modes", frozenset({"hard"}), "a set of GateMode"),
    ("timing", "layer", "a Timing"),
    ("deterministic", 1, "True or False"),
    ("batch_invariant", "no", "True or False"),
    ("chunk_invariant", None, "True or False"),
    ("prefix_determined", 0, "True or False"),
    ("tolerates_dense_prefix", "", "True or False"),
    ("needs_router", 0, "True or False"),
    ("needs_projector", None, "True or False"),
    ("request_state_bytes", -1, "an int from 0"),
    ("request_state_bytes", 1.0, "an int from 0"),
    ("request_state_bytes", True, "an int from 0"),
    ("needs_router", True, "a checkpoint with router tensors"),
]


@pytest.mark.parametrize(("field", "value", "expected"), DECLARED)
def test_a_declaration_of_the_wrong_type(
    field: str, value: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken.Fair, "capabilities", replace(PolicyCapabilities(), **{field: value}))
    with pytest.raises(PolicyError, match=f"hook capabilities: field {field} ") as caught:
        load_policy(f"{BROKEN}:Fair", context())
    assert repr(value) in caught.value.got
    assert expected in caught.value.expected
    assert caught.value.location == f"{FILE}:{line_of('class Fair')}"


def test_a_second_decision_that_is_declared() -> None:
    assert hasattr(load_policy(f"{BROKEN}:DecidesTwice", context()), "route_mlp")


def test_a_router_that_is_there() -> None:
    load_policy(f"{BROKEN}:NeedsRouter", context(tensors=router_tensors()))


def entry(name: str, value: str = f"{BROKEN}:Fair") -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_entry_points_are_known_by_name() -> None:
    registry = policy_registry([entry("mine")])
    assert registry.names == tuple(sorted({*BUILT_IN, "mine"}))
    assert registry.find("mine").target == f"{BROKEN}:Fair"


@pytest.mark.parametrize("entries", [[entry("mine"), entry("mine")], [entry("random-skip")]])
def test_a_name_is_registered_once(entries: list[EntryPoint]) -> None:
    with pytest.raises(InputError, match="registered twice"):
        policy_registry(entries)


@pytest.mark.parametrize("name", ["", "a:b"])
def test_a_name_that_reads_as_a_class(name: str) -> None:
    with pytest.raises(InputError, match="without a colon"):
        Registry().register(name, "m:C", "test")


def test_load_by_an_installed_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {BROKEN}:Fair\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(load_policy("mine", context()), broken.Fair)
