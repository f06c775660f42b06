"""The engine's resolved arguments, inside a process that it has set up."""

from __future__ import annotations

from typing import Any

from vskipper.sglang.seams.server_args import resolved


def current() -> Any:
    """Raises what the engine raises where none are set."""
    try:
        from sglang.srt.runtime_context import get_server_args
    except ImportError:
        from sglang.srt.server_args import get_global_server_args as get_server_args
    # newer engines keep what the user gave apart from what they made of it
    return resolved(get_server_args())
