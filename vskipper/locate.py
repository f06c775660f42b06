"""Where something is defined, as file:line, for errors that a policy's author can act on."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from types import TracebackType
from typing import Any

UNKNOWN = "unknown file:0"
# characters of a message that is passed on
LONGEST = 500


def location_of(item: Any) -> str:
    """file:line of a function, method or class; of an object's class otherwise. In words where there is no source."""
    function = inspect.unwrap(getattr(item, "__func__", item))
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    described = item if inspect.isclass(item) else type(item)
    try:
        return f"{inspect.getsourcefile(described)}:{inspect.getsourcelines(described)[1]}"
    except (OSError, TypeError):
        # written in C, or made in a console or by exec
        named = item if getattr(item, "__module__", None) and getattr(item, "__qualname__", None) else described
        return f"{named.__module__}.{named.__qualname__}, which has no source file"


def hook_location(policy: object, hook: str) -> str:
    """file:line of the policy's hook, of its class where it has no such hook."""
    found = getattr(policy, hook, None)
    return location_of(found if callable(found) else type(policy))


def raised_at(traceback: TracebackType | None, files: frozenset[str], otherwise: str) -> str:
    """file:line of the innermost frame that lies in one of `files`."""
    place = otherwise
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in files:
            place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place


def raised_words(error: BaseException) -> str:
    """What was raised: its type, and the beginning of its message where it has one that can be asked for."""
    try:
        message = str(error)
    except Exception as broken:
        message = f"a message that raises {type(broken).__name__}"
    cut = message if len(message) <= LONGEST else f"{message[:LONGEST]}..."
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


def source_digest(policy: object) -> str:
    """sha256 of the files that define the policy's class and its bases, in their order; a class without one adds
    nothing."""
    hashed = hashlib.sha256()
    for cls in type(policy).__mro__:
        try:
            source = inspect.getsourcefile(cls)
        except (TypeError, OSError):
            continue
        if source and Path(source).is_file():
            hashed.update(Path(source).read_bytes())
    return hashed.hexdigest()


def source_files(policy: object) -> frozenset[str]:
    """Files that define the policy's class and its bases, as code objects spell them."""
    members = [member for cls in type(policy).__mro__ for member in vars(cls).values()]
    functions = [member.fget if isinstance(member, property) else member for member in members]
    codes = [getattr(inspect.unwrap(function), "__code__", None) for function in functions if callable(function)]
    return frozenset(code.co_filename for code in codes if code is not None)
