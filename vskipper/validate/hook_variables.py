"""Variables that a policy's hooks can reach besides its attributes: of the modules that define its classes, and what
its functions close over."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

HOOKS = ("begin", "route", "route_mlp", "project", "swiglu")
# their own business, and none of a policy's
_FOREIGN = sys.stdlib_module_names | {"torch", "triton", "numpy"}


def package_of(item: Any) -> str:
    """The first word of the name of the module that defines a class or function."""
    return str(getattr(item, "__module__", None)).partition(".")[0]


def function_of(hook: Any) -> types.FunctionType | None:
    """What a hook runs, where that is a function written in Python."""
    function = getattr(hook, "__func__", hook)
    return function if isinstance(function, types.FunctionType) else None


def function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function closes over, its defaults and its attributes."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:
            # a variable that has no value yet
            continue
    for index, value in enumerate(function.__defaults__ or ()):
        yield f"(default {index})", value
    for name, value in (*(function.__kwdefaults__ or {}).items(), *vars(function).items()):
        yield f".{name}", value


def module_parts(policy: object) -> Iterator[tuple[str, Any]]:
    """The variables of the modules that define the policy's class and its bases, under `module.name`."""
    names = dict.fromkeys(cls.__module__ for cls in type(policy).__mro__)
    for module in (name for name in names if name.partition(".")[0] not in _FOREIGN and name in sys.modules):
        for name, value in _variables(sys.modules[module]):
            yield f"{module}.{name}", value
            if isinstance(value, type) and value.__module__ == module:
                yield from ((f"{module}.{name}.{part}", held) for part, held in _variables(value))


def _variables(item: Any) -> Iterator[tuple[str, Any]]:
    """Of a module or class, those that the language has not put there."""
    return ((name, value) for name, value in tuple(vars(item).items()) if not name.startswith("__"))
