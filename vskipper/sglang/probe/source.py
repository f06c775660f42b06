"""The text of one Python file, a definition at a time: only what is asked for is parsed, since parsing whole modules of
an engine costs most of a second. Nothing is imported or run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

# strings over several lines, so that what stands in them is taken neither for a definition nor for the end of one; the
# last three are what only looks like the beginning of such a string
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r"""|'[^'\n]*\"\"\"[^'\n]*'"""
    r'''|"[^"\n]*\'\'\'[^"\n]*"'''
    r"""|#[^\n]*(?:\"\"\"|''')[^\n]*""",
    re.DOTALL,
)
_HEAD: Final = re.compile(r"[^:]*:")
_NAMED: Final = re.compile(r"^    (?:async def |def |class )?(\w+)(?:\(| = |:)", re.MULTILINE)
_INDENT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Why there is no such file or definition. broken: it is there, and cannot be read."""

    reason: str
    broken: bool = False


class Definition:
    """A function, or the head of a class. line: where it begins, from 1. names: what the body of a class declares,
    assigns or defines."""

    def __init__(self, line: int, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, names: frozenset[str]):
        self.line = line
        self.node = node
        self.names = names

    @cached_property
    def text(self) -> str:
        """The code in one normal form, without comments."""
        return ast.unparse(self.node)

    @cached_property
    def set_on_self(self) -> frozenset[str]:
        """Attributes that a method assigns to its object."""
        found = [each for each in ast.walk(self.node) if isinstance(each, ast.Attribute)]
        stored = [each for each in found if isinstance(each.ctx, ast.Store) and isinstance(each.value, ast.Name)]
        return frozenset(each.attr for each in stored if isinstance(each.value, ast.Name) and each.value.id == "self")


class Source:
    """One file. Definitions are found where a module keeps them: at its top level, or directly in a class there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.find = cache(self._find)

    @cached_property
    def _visible(self) -> str:
        """The text with strings of several lines blanked."""
        return _STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), self.text)

    def line_of(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def _find(self, name: str) -> Definition | Absent:
        """name: `function`, `Class` or `Class.method`."""
        start, stop, indent = 0, len(self.text), 0
        for part in name.split("."):
            heads = self._heads(part, indent, start, stop)
            if not heads:
                return Absent(reason=f"no {name}")
            # of several, Python keeps the last
            start = heads[-1]
            stop = self._end(start, indent)
            indent += _INDENT
        return self._parse(name, start, stop)

    def _heads(self, name: str, indent: int, start: int, stop: int) -> list[int]:
        """Where lines begin that define `name` at `indent`."""
        found = []
        for keyword in ("def", "class", "async def"):
            line = f"{' ' * indent}{keyword} {name}"
            position = self._visible.find(line, start, stop)
            while position >= 0:
                following = self._visible[position + len(line) : position + len(line) + 1]
                begins = position == 0 or self._visible[position - 1] == "\n"
                if begins and not (following.isalnum() or following == "_"):
                    found.append(position)
                position = self._visible.find(line, position + 1, stop)
        return sorted(found)

    def _end(self, start: int, indent: int) -> int:
        """Where the next statement begins that is not part of the block at `start`."""
        following = _statement(indent).search(self._visible, self._visible.find("\n", start))
        return following.start() + 1 if following else len(self.text)

    def _parse(self, name: str, start: int, stop: int) -> Definition | Absent:
        nested, is_class = "." in name, self._visible.startswith("class", start)
        head = _HEAD.match(self._visible, start, stop) if is_class else None
        code = self.text[self._decorated(start, name.count(".") * _INDENT) : head.end() if head else stop]
        try:
            # of a class the head alone: its methods are looked up one by one
            module = ast.parse(f"{'class _:' * nested}\n{code}{'...' * is_class}")
        except SyntaxError:
            return Absent(reason=f"{name} cannot be parsed", broken=True)
        outer = module.body[0]
        node = outer.body[0] if nested and isinstance(outer, ast.ClassDef) else outer
        assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        named = _NAMED.finditer(self._visible, start, stop) if is_class else ()
        return Definition(self.line_of(start), node, frozenset(match[1] for match in named))

    def _decorated(self, start: int, indent: int) -> int:
        """Where the decorators above `start` begin."""
        first = position = start
        while position > 0:
            above = self._visible.rfind("\n", 0, position - 1) + 1
            line = self._visible[above : position - 1]
            inner = line[: indent + 1].isspace() and not line.isspace()
            if not inner and not line[indent:].startswith(("@", ")", "]")):
                break
            position = above
            if line[indent:].startswith("@"):
                first = above
        return first


@cache
def _statement(indent: int) -> re.Pattern[str]:
    """A line at `indent` or less that is no comment, and no closing bracket of what began above it."""
    return re.compile(rf"\n {{0,{indent}}}[^\s#)\]}}]")
