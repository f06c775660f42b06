"""A policy's settings held against its factory's signature: names, types, and what must be given."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

from vskipper.errors import InputError, PolicyError
from vskipper.locate import location_of

_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def bind_settings(spec: str, factory: Callable[..., Any], settings: Mapping[str, object]) -> dict[str, object]:
    """The settings as keyword arguments of factory(context, **settings).

    Raises InputError for one that is unknown, of the wrong type, or not given; PolicyError for a factory without a
    place for the context.
    """
    parameters = _parameters(spec, factory)
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise PolicyError(
            "takes no context",
            policy=spec,
            hook="__init__",
            location=location_of(factory),
            got=str(inspect.signature(factory)),
            expected="(context, **settings)",
        )
    known = {parameter.name: parameter for parameter in parameters[1:] if parameter.kind in _KEYWORD}
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        _refuse_unknown(spec, settings, known)
    for name, parameter in known.items():
        if name in settings:
            _check_type(spec, settings[name], parameter, _annotation(factory, parameter))
        elif parameter.default is inspect.Parameter.empty:
            where = f"policy {spec}, setting {name}"
            raise InputError("setting is missing", where=where, got="nothing", expected="a value")
    return dict(settings)


def _parameters(spec: str, factory: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(factory).parameters.values())
    except ValueError as error:
        expected = "factory(context, **settings)"
        raise InputError("policy is no class", where=f"policy {spec}", got=error, expected=expected) from error


def _refuse_unknown(spec: str, settings: Mapping[str, object], known: Mapping[str, inspect.Parameter]) -> None:
    for name in settings:
        if name not in known:
            expected = f"one of {', '.join(known)}" if known else "no settings"
            raise InputError("unknown setting", where=f"policy {spec}", got=repr(name), expected=expected)


def _annotation(factory: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    function = factory.__init__ if inspect.isclass(factory) else factory
    try:
        return eval(annotation, dict(inspect.unwrap(function).__globals__))
    except NameError:
        # imported for type checkers only: such a setting is left to the policy's own checks
        return Any


def _check_type(spec: str, value: object, parameter: inspect.Parameter, annotation: Any) -> None:
    if not fits(value, annotation):
        where = f"policy {spec}, setting {parameter.name}"
        expected = str(parameter.annotation) if isinstance(parameter.annotation, str) else describe(annotation)
        raise InputError("setting has the wrong type", where=where, got=repr(value), expected=expected)


def describe(annotation: Any) -> str:
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation).replace("typing.", "")


def fits(value: object, annotation: Any) -> bool:
    """Whether `value` fits a plain annotation (bool, int, float, str, None, Literal, unions); others are not judged."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in get_args(annotation))
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in get_args(annotation))
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (None, type(None)):
        return value is None
    return isinstance(value, annotation) if annotation in (bool, str) else True
