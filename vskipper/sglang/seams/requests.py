"""The engine's requests: when one comes in, and when one loses its KV and waits to compute it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vskipper.sglang.seams.wrap import rewrap


def install(admitted: Callable[[Any], None], retracted: Callable[[Any], None]) -> None:
    """Have `admitted` called with every new request and `retracted` with one whose KV was taken."""
    from sglang.srt.managers.schedule_batch import Req

    def construct(original: Callable[..., None], request: Any, *arguments: Any, **keywords: Any) -> None:
        original(request, *arguments, **keywords)
        admitted(request)

    def retract(original: Callable[..., None], request: Any, *arguments: Any, **keywords: Any) -> None:
        original(request, *arguments, **keywords)
        retracted(request)

    rewrap(Req, "__init__", construct)
    rewrap(Req, "reset_for_retract", retract)
