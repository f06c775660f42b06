"""What a policy holds in Python: a fingerprint of its attributes, of its modules' variables and of what its hooks close
over, so that two can be compared (clause POL-2)."""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any

from torch import Tensor

from vskipper.validate.hook_variables import HOOKS, function_of, function_parts, module_parts, package_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes, Enum)
_CONTAINERS = (list, tuple, deque, dict, set, frozenset)
# shared with code outside the policy; what they hold is not the policy's
_OPAQUE = (Tensor, type, types.ModuleType, types.BuiltinFunctionType)
# of an object or function from this package, whether what it holds counts
Inside = Callable[[str], bool]


def python_state(policy: object) -> dict[str, object]:
    """Path to value: plain values themselves, tensors and other objects by identity.

    A tensor's contents do not count: they are on the device, and a captured graph may change them.
    """
    state: dict[str, object] = {}
    seen: set[int] = set()
    found = [(hook, function_of(getattr(policy, hook, None))) for hook in HOOKS]
    functions = [(hook, function) for hook, function in found if function is not None]
    own = {package_of(type(policy)), *(package_of(function) for _, function in functions)}
    _collect("", policy, state, seen, lambda package: package not in sys.stdlib_module_names)
    for path, part in (*functions, *module_parts(policy)):
        _collect(path, part, state, seen, own.__contains__)
    return state


def changed_state(before: Mapping[str, object], after: Mapping[str, object]) -> str | None:
    """The first path that differs, with both values; None where none does."""
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path, "absent"), after.get(path, "absent")
        # nan is the one plain value that is not itself
        if old != new and not (old != old and new != new):
            return f"{path}: {old} became {new}"
    return None


def _collect(path: str, item: Any, state: dict[str, object], seen: set[int], inside: Inside) -> None:
    if isinstance(item, _PLAIN):
        state[path] = item
        return
    if isinstance(item, types.MethodType):
        # made anew whenever it is asked for
        item = item.__func__
    # an object that is replaced by its equal is a change for a captured graph, a container that is rebuilt is not
    if not isinstance(item, _CONTAINERS):
        state[path] = f"{type(item).__name__} at {id(item):#x}"
    if id(item) in seen or isinstance(item, _OPAQUE):
        return
    function = isinstance(item, types.FunctionType)
    if not isinstance(item, _CONTAINERS) and not inside(package_of(item if function else type(item))):
        return
    seen.add(id(item))
    for name, part in function_parts(item) if function else _parts(item):
        _collect(f"{path}{name}", part, state, seen, inside)


def _parts(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        yield "{size}", len(item)
        for key, value in item.items():
            yield f"[{key!r}]" if isinstance(key, _PLAIN) else f"[{id(key):#x}]", value
    elif isinstance(item, list | tuple | deque):
        yield "{size}", len(item)
        for index, value in enumerate(item):
            yield f"[{index}]", value
    elif isinstance(item, set | frozenset):
        yield "{members}", ",".join(sorted(map(repr, item)))
    else:
        yield from _attributes(item)


def _attributes(item: Any) -> Iterator[tuple[str, Any]]:
    """Instance attributes, slots, and what the classes hold besides their methods."""
    for name, value in vars(item).items() if hasattr(item, "__dict__") else ():
        yield f".{name}", value
    for cls in type(item).__mro__[:-1]:
        if cls.__module__ in ("builtins", "torch.nn.modules.module"):
            continue
        for name in getattr(cls, "__slots__", ()):
            if hasattr(item, name):
                yield f".{name}", getattr(item, name)
        for name, value in vars(cls).items():
            if not name.startswith("__") and isinstance(value, (*_PLAIN, list, dict, set)):
                yield f".{cls.__name__}.{name}", value
