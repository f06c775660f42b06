"""What the scheduler answers when it is asked for its state, and /server_info with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vskipper.sglang.seams.wrap import rewrap

KEY = "vskipper"


def install(facts: Callable[[], dict[str, Any]]) -> None:
    """Add facts() to the answer under KEY: the proof that the plugin runs in this scheduler."""
    from sglang.srt.managers.scheduler import Scheduler

    def answer(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
        output = original(self, *arguments, **keywords)
        output.internal_state[KEY] = facts()
        return output

    rewrap(Scheduler, "get_internal_state", answer)
