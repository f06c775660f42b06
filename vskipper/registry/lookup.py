"""Policies by name: built in, registered under the entry point group vskipper.policies, or package.module:Class."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vskipper.errors import InputError, PolicyError
from vskipper.locate import hook_location, location_of, raised_at, raised_words
from vskipper.policy import PolicyCapabilities, PolicyContext, SkipPolicy, Timing
from vskipper.registry.capabilities import checked_capabilities
from vskipper.registry.settings import bind_settings

GROUP = "vskipper.policies"
BUILT_IN = {
    "early-exit": "vskipper.policies.early_exit:EarlyExit",
    "flexidepth": "vskipper.policies.flexidepth:FlexiDepth",
    "random-skip": "vskipper.policies.random_skip:RandomSkip",
    "random-sublayer": "vskipper.policies.random_sublayer:RandomSublayer",
    "static-depth": "vskipper.policies.static_depth:StaticDepth",
}
_HOOKS = {
    "begin": ("batch",),
    "route": ("layer", "x", "state"),
    "route_mlp": ("layer", "y", "state"),
    "project": ("layer", "y", "state"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """Where a policy's factory is: target `package.module:Class`; origin says who registered it."""

    target: str
    origin: str


class Registry:
    """Policy names, each registered once."""

    def __init__(self) -> None:
        self._targets: dict[str, Registered] = {}

    def register(self, name: str, target: str, origin: str) -> None:
        """Raises InputError for a name that is taken, whoever holds it, and for one that reads as a class."""
        if not name or ":" in name:
            raise InputError("policy name", where=origin, got=repr(name), expected="a name without a colon")
        if name in self._targets:
            held = self._targets[name]
            got = f"{name!r} again, as {target}"
            raise InputError(
                "policy registered twice", where=origin, got=got, expected=f"one, {held.target} of {held.origin}"
            )
        self._targets[name] = Registered(target=target, origin=origin)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._targets))

    def find(self, name: str) -> Registered:
        """Raises InputError that lists the known names."""
        if name not in self._targets:
            expected = f"one of {', '.join(self.names)}, or package.module:Class"
            raise InputError("unknown policy", where="policy name", got=repr(name), expected=expected)
        return self._targets[name]


def policy_registry(installed: Iterable[EntryPoint] | None = None) -> Registry:
    """The built-in policies and those that installed packages register (`installed`: their entry points)."""
    registry = Registry()
    for name, target in BUILT_IN.items():
        registry.register(name, target, "vskipper")
    for entry in _installed(tuple(sys.path)) if installed is None else installed:
        registry.register(entry.name, entry.value, entry.dist.name if entry.dist else "an entry point")
    return registry


@cache
def _installed(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Of the packages on `path`: the metadata of every one is read for it."""
    return tuple(entry_points(group=GROUP))


def load_policy(spec: str, context: PolicyContext, settings: Mapping[str, object] | None = None) -> SkipPolicy:
    """Make the policy that `spec` names on `context`; raises InputError, or PolicyError where its class is at fault."""
    target = spec if ":" in spec else policy_registry().find(spec).target
    factory = _import(spec, target)
    bound = bind_settings(spec, factory, settings or {})
    policy = _make(spec, factory, context, bound)
    _check_hooks(spec, policy, checked_capabilities(spec, policy, context))
    return policy


def _import(spec: str, target: str) -> Callable[..., Any]:
    module_name, _, path = target.partition(":")
    where = f"policy {spec}"
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        expected = f"module {module_name!r}"
        raise InputError(
            "policy cannot be imported", where=where, got=raised_words(error), expected=expected
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            expected = f"a class in {getattr(found, '__file__', None) or module_name}"
            raise InputError("policy is not there", where=where, got=f"no {name!r}", expected=expected)
        found = getattr(found, name)
    if not callable(found):
        raise InputError(
            "policy is no class", where=where, got=type(found).__name__, expected="factory(context, **settings)"
        )
    factory: Callable[..., Any] = found
    return factory


def _make(spec: str, factory: Callable[..., Any], context: PolicyContext, settings: Mapping[str, object]) -> SkipPolicy:
    try:
        policy: SkipPolicy = factory(context, **settings)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        place = location_of(factory)
        raise PolicyError(
            "raised while it was made",
            policy=spec,
            hook="__init__",
            location=raised_at(error.__traceback__, frozenset({place.rpartition(":")[0]}), place),
            got=raised_words(error),
            expected="a policy",
        ) from error
    return policy


def _check_hooks(spec: str, policy: SkipPolicy, capabilities: PolicyCapabilities) -> None:
    """Raise PolicyError for a missing hook, one that is no method, or a second decision that is not declared."""
    place = location_of(type(policy))
    twice = capabilities.timing == Timing.MID_LAYER
    if hasattr(policy, "route_mlp") and not twice:
        raise PolicyError(
            "not declared",
            policy=spec,
            hook="route_mlp",
            location=hook_location(policy, "route_mlp"),
            got=f"timing {capabilities.timing}",
            expected=f"timing {Timing.MID_LAYER}, or no such hook",
        )
    optional = {"route_mlp": twice, "project": capabilities.needs_projector}
    for hook, parameters in _HOOKS.items():
        if not optional.get(hook, True):
            continue
        found = getattr(policy, hook, None)
        if not callable(found):
            got = "no such method" if found is None else type(found).__name__
            expected = f"{hook}({', '.join(parameters)})"
            raise PolicyError("missing", policy=spec, hook=hook, location=place, got=got, expected=expected)
        _check_parameters(spec, hook, found, parameters)


def _check_parameters(spec: str, hook: str, method: Callable[..., Any], parameters: tuple[str, ...]) -> None:
    signature = inspect.signature(method)
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise PolicyError(
            "takes other parameters",
            policy=spec,
            hook=hook,
            location=location_of(method),
            got=f"{hook}{signature}",
            expected=f"{hook}({', '.join(parameters)})",
        ) from error
