"""Where something is defined, in what a policy's author is told."""

from __future__ import annotations

import collections
import os
from pathlib import Path
from typing import Any

import pytest

from tests.policies.batches import context
from vskipper.errors import PolicyError
from vskipper.locate import location_of
from vskipper.registry.lookup import load_policy

MADE: dict[str, Any] = {"__name__": "made"}
exec("class Made: pass", MADE)


@pytest.mark.parametrize(
    ("item", "place"),
    [
        (os.getcwd, f"{os.name}.getcwd, which has no source file"),
        (len, "builtins.len, which has no source file"),
        (dict, "builtins.dict, which has no source file"),
        (5, "builtins.int, which has no source file"),
        (MADE["Made"], "made.Made, which has no source file"),
        (MADE["Made"](), "made.Made, which has no source file"),
    ],
)
def test_what_has_no_source_is_named(item: object, place: str) -> None:
    assert location_of(item) == place


def test_what_has_one_is_a_line_of_it() -> None:
    for item in (test_what_has_no_source_is_named, collections.Counter):
        file, _, line = location_of(item).rpartition(":")
        assert Path(file).is_file() and line.isdecimal()


def test_a_policy_that_is_built_in_is_told_by_its_name() -> None:
    with pytest.raises(PolicyError, match=rf"takes no context \[{os.name}\.getcwd, which has no source file\]"):
        load_policy("os:getcwd", context())
