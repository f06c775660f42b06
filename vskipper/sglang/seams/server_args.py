"""Where every process that starts an engine turns what the user gave into a configuration: in the class of the
arguments itself, so that the server, the in-process engine and the suite pass the same checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vskipper.errors import InputError
from vskipper.sglang.checks.refusals import refuse_arguments
from vskipper.sglang.plugin import refuse
from vskipper.sglang.seams.wrap import rewrap

# the newer engine resolves in a step of its own and marks what went through it; the older one when it constructs
_STEP: Final = "resolve_once"
_DONE: Final = "_resolution_finished"


def install(check: Callable[[Any], None], *, before: Callable[[Any], None] = refuse_arguments) -> None:
    """Have `check` called with all arguments once they are resolved, and `before` with those the user gave, so that no
    complaint of the engine's about a refused feature comes first. What either refuses (InputError) ends the process:
    one line on standard error, SystemExit(2). A second call replaces the first."""
    from sglang.srt.server_args import ServerArgs

    def checked(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
        if getattr(self, _DONE, False):
            return original(self, *arguments, **keywords)
        try:
            before(self)
            result = original(self, *arguments, **keywords)
            check(resolved(self))
        except InputError as error:
            refuse(error)
        return result

    rewrap(ServerArgs, _STEP if hasattr(ServerArgs, _STEP) else "__post_init__", checked)


def resolved(server_args: Any) -> Any:
    """An object whose attributes are the resolved values: the arguments themselves, or the engine's view of them."""
    try:
        from sglang.srt.arg_groups.overrides import resolving_view
    except ImportError:
        return server_args
    return resolving_view(server_args)
