"""What can be asked of a tree: does a function take these arguments, does a class set these attributes, does a piece of
code say this. Each answer carries what was seen, so that a shape nobody knows is reported and not only refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from textwrap import shorten
from typing import Final

from vskipper.sglang.probe.source import Absent, Definition
from vskipper.sglang.probe.tree import Tree

_SHOWN: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """holds: whether the condition does. place: the file, from `sglang` on, with the line where one is known. saw: what
    stands there. wanted: what the condition asks for."""

    holds: bool
    place: str
    saw: str
    wanted: str


Condition = Callable[[Tree], Sight]
Judge = Callable[[Definition], tuple[bool, str]]


def takes(
    path: str, name: str, *leading: str, accepts: tuple[str, ...] = (), without: tuple[str, ...] = ()
) -> Condition:
    """A plain function whose first parameters are `leading`, which takes those of `accepts` as well, none of `without`,
    and which can be called without any other."""

    def judge(found: Definition) -> tuple[bool, str]:
        node = found.node
        if not isinstance(node, ast.FunctionDef):
            return False, "async def" if isinstance(node, ast.AsyncFunctionDef) else "a class"
        names = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
        taken = {*names, *(each.arg for each in node.args.kwonlyargs)}
        required = set(_required(node.args)) - {*leading, *accepts}
        agrees = set(accepts) <= taken and not taken & set(without) and not required
        return agrees and tuple(names[: len(leading)]) == leading, f"({ast.unparse(_bare(node.args))})"

    return _definition(
        path, name, f"{name}({', '.join((*leading, *accepts, *(f'no {each}' for each in without)))})", judge
    )


def _required(arguments: ast.arguments) -> list[str]:
    """Names of the parameters without a default."""
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    first_default = len(positional) - len(arguments.defaults)
    return [*positional[:first_default], *(each.arg for each, default in keyword if default is None)]


def _bare(arguments: ast.arguments) -> ast.arguments:
    """The same without annotations."""
    bare = deepcopy(arguments)
    for each in ast.walk(bare):
        if isinstance(each, ast.arg):
            each.annotation = None
    return bare


def has(path: str, name: str, *attributes: str) -> Condition:
    """A class whose body declares, assigns or defines the `attributes`, or a method that sets them on its object."""

    def judge(found: Definition) -> tuple[bool, str]:
        missing = [each for each in attributes if each not in found.names | found.set_on_self]
        return not missing, f"no {', '.join(missing)}" if missing else ", ".join(attributes)

    return _definition(path, name, f"{name} with {', '.join(attributes)}", judge)


def says(path: str, name: str, *fragments: str) -> Condition:
    """A definition whose code, as ast.unparse writes it, contains all the `fragments`."""

    def judge(found: Definition) -> tuple[bool, str]:
        missing = [each for each in fragments if each not in found.text]
        return not missing, f"no `{'`, no `'.join(missing)}`" if missing else f"`{fragments[0]}`"

    return _definition(path, name, f"{name} with `{'`, `'.join(fragments)}`", judge)


def before(path: str, name: str, first: str, second: str) -> Condition:
    """A definition whose code contains both, `first` before `second`."""

    def judge(found: Definition) -> tuple[bool, str]:
        places = found.text.find(first), found.text.find(second)
        missing = [text for text, place in zip((first, second), places, strict=True) if place < 0]
        if missing:
            return False, f"no `{'`, no `'.join(missing)}`"
        ordered = (first, second) if places[0] < places[1] else (second, first)
        return places[0] < places[1], f"`{ordered[0]}` before `{ordered[1]}`"

    return _definition(path, name, f"`{first}` before `{second}`", judge)


def inherits(path: str, name: str, base: str) -> Condition:
    """A class with `base` among its bases."""

    def judge(found: Definition) -> tuple[bool, str]:
        bases = [ast.unparse(each) for each in found.node.bases] if isinstance(found.node, ast.ClassDef) else []
        return base in bases, f"class {name}({', '.join(bases)})"

    return _definition(path, name, f"class {name}({base})", judge)


def takes_attributes(path: str, name: str) -> Condition:
    """A class on whose objects any attribute can be set."""

    def judge(found: Definition) -> tuple[bool, str]:
        node = found.node
        if not isinstance(node, ast.ClassDef):
            return False, "a function"
        closed = [each for each in map(ast.unparse, node.decorator_list) if re.search(r"(slots|frozen)=True", each)]
        closed += [base for base in map(ast.unparse, node.bases) if base.split(".")[-1] in ("Struct", "NamedTuple")]
        closed += ["__slots__"] * ("__slots__" in found.names)
        return not closed, ", ".join(closed) or "an open class"

    return _definition(path, name, f"{name}, open to other attributes", judge)


def declares(path: str, *fields: str) -> Condition:
    """A file in which a class declares each of `fields` with a type."""
    return _text(path, f"fields {', '.join(fields)}", *[rf"^    {re.escape(each)}: " for each in fields], names=fields)


def mentions(path: str, *fragments: str) -> Condition:
    """A file that contains all the `fragments`, wherever it does, and not as parts of longer names."""
    patterns = [
        r"\b" * each[0].isidentifier() + re.escape(each) + r"\b" * each[-1].isidentifier() for each in fragments
    ]
    return _text(path, f"`{'`, `'.join(fragments)}`", *patterns, names=fragments)


def lacks(path: str, *, name: str | None = None, mention: str | None = None) -> Condition:
    """No such file; or one without the definition `name`, or without `mention`."""

    told = name or (f"`{mention}`" if mention else "file")

    def condition(tree: Tree) -> Sight:
        source = tree.source(path)
        found = source if isinstance(source, Absent) or name is None else source.find(name)
        if isinstance(found, Absent):
            saw = found.reason if found.broken else f"no {told}"
            return Sight(holds=not found.broken, place=path, saw=saw, wanted=f"no {told}")
        absent = mention is not None and not isinstance(source, Absent) and mention not in source.text
        saw = f"no {told}" if absent else f"{told} is there"
        return Sight(holds=absent, place=path, saw=saw, wanted=f"no {told}")

    return condition


def either(*conditions: Condition) -> Condition:
    """The first that holds; the last where none does."""

    def condition(tree: Tree) -> Sight:
        sights = [each(tree) for each in conditions]
        return next((sight for sight in sights if sight.holds), sights[-1])

    return condition


def _definition(path: str, name: str, wanted: str, judge: Judge) -> Condition:
    def condition(tree: Tree) -> Sight:
        found = tree.find(path, name)
        if isinstance(found, Absent):
            return Sight(holds=False, place=path, saw=found.reason, wanted=wanted)
        holds, saw = judge(found)
        return Sight(holds=holds, place=f"{path}:{found.line}", saw=shorten(saw, _SHOWN), wanted=wanted)

    return condition


def _text(path: str, wanted: str, *patterns: str, names: Sequence[str]) -> Condition:
    # a fragment may begin with the end of the line before it
    wanted, *names = (" ".join(text.split()) for text in (wanted, *names))

    def condition(tree: Tree) -> Sight:
        source = tree.source(path)
        if isinstance(source, Absent):
            return Sight(holds=False, place=path, saw=source.reason, wanted=wanted)
        found = [re.search(pattern, source.text, re.MULTILINE) for pattern in patterns]
        missing = [name for name, match in zip(names, found, strict=True) if match is None]
        line = next((source.line_of(match.start()) for match in found if match), None)
        return Sight(
            holds=not missing,
            place=path if line is None else f"{path}:{line}",
            saw=f"no {', '.join(missing)}" if missing else ", ".join(names),
            wanted=wanted,
        )

    return condition
