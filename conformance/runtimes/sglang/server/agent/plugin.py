"""The entry point: in the process that holds the scheduler, its event loop is run by the agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from conformance.runtimes.sglang.server.wire import ADDRESS, KEY

SCHEDULER = "sglang.srt.managers.scheduler"


def load() -> None:
    """Does nothing in a process that has imported no scheduler, or that the suite did not start."""
    module = sys.modules.get(SCHEDULER)
    if ADDRESS in os.environ and module is not None:
        module.Scheduler.run_event_loop = _attended(module.Scheduler.run_event_loop)


def _attended(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """The agent's sessions run the scheduler's loop too: that one as it is."""
    attended: list[object] = []

    @wraps(original)
    def run_event_loop(scheduler: Any) -> None:
        if attended:
            original(scheduler)
            return
        from conformance.runtimes.sglang.server.agent.loop import attend

        attended.append(scheduler)
        attend(scheduler, original, os.environ[ADDRESS], bytes.fromhex(os.environ[KEY]))

    return run_event_loop
