"""Definitions are found in a text as Python would find them, without parsing all of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vskipper
from vskipper.sglang.probe.source import Absent, Definition, Source

TEXT = '''
"""
def quoted(): ...
"""
import os


def first(a): ...


@decorate(
    slots=True,
)
@second
class Whole(Base[int], metaclass=Meta):
    """A text that
begins at the margin
    def quoted(self): ...
"""

    field: int = 1
    x = """
def quoted(): ...
"""

    # a comment at the margin follows
# like this one
    @property
    def method(
        self,
        b=("def quoted(self): ...", '"""'),
    ) -> int:
        self.attribute, other.foreign = 1, 2
        return f"""
{b}"""

    async def later(self): ...

    class Inner:
        hidden: int


    def method_two(self): ...
def first(b):  # """
    return b
'''


def found(name: str, text: str = TEXT) -> Definition:
    definition = Source(text).find(name)
    assert isinstance(definition, Definition), definition
    return definition


def test_the_last_of_several_counts() -> None:
    assert found("first").text == "def first(b):\n    return b"
    assert found("first").line == TEXT[: TEXT.index("def first(b)")].count("\n") + 1


def test_a_class_is_its_head_and_the_names_of_its_body() -> None:
    whole = found("Whole")
    assert whole.text.startswith("@decorate(slots=True)\n@second\nclass Whole(Base[int], metaclass=Meta):")
    assert whole.names == {"field", "x", "method", "later", "Inner", "method_two"}
    assert whole.line == TEXT[: TEXT.index("class Whole")].count("\n") + 1


def test_a_method_is_whole() -> None:
    method = found("Whole.method")
    assert method.set_on_self == {"attribute"}
    assert method.text.startswith("@property\ndef method(self, b=(") and "{b}" in method.text
    assert isinstance(found("Whole.later").node, ast.AsyncFunctionDef)
    assert found("Whole.method_two").text == "def method_two(self):\n    ..."


@pytest.mark.parametrize(
    "name", ["quoted", "Whole.quoted", "Whole.first", "method", "firs", "Nothing.method", "Whole.hidden"]
)
def test_what_is_not_there_is_absent(name: str) -> None:
    absent = Source(TEXT).find(name)
    assert isinstance(absent, Absent) and name in absent.reason


def test_what_cannot_be_parsed_is_absent() -> None:
    absent = Source("def broken(a b):\n    ...\n").find("broken")
    assert isinstance(absent, Absent) and absent.reason == "broken cannot be parsed"


def test_a_file_may_end_anywhere() -> None:
    assert found("last", "def last(a): return a").line == 1
    assert found("last", "@x\ndef last(\n    a\n):\n    pass").text.startswith("@x\ndef last(a)")
    assert isinstance(Source("").find("anything"), Absent)


def test_every_definition_of_this_project_is_found_as_python_parses_it() -> None:
    compared = 0
    for path in Path(vskipper.__file__).parent.rglob("*.py"):
        text = path.read_text()
        source = Source(text)
        for outer in ast.parse(text).body:
            if not isinstance(outer, ast.ClassDef | ast.FunctionDef):
                continue
            inner = [each for each in outer.body if isinstance(each, ast.FunctionDef)] * isinstance(outer, ast.ClassDef)
            by_name = {f"{outer.name}.{each.name}": each for each in inner}
            by_name |= {outer.name: outer} if isinstance(outer, ast.FunctionDef) else {}
            for name, node in by_name.items():
                definition = source.find(name)
                assert isinstance(definition, Definition), (path, name, definition)
                assert (definition.text, definition.line) == (ast.unparse(node), node.lineno), (path, name)
                compared += 1
    assert compared > 300
