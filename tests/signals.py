"""Signals as a program started by hand hears them, whoever runs the tests."""

from __future__ import annotations

import signal


def hear_all() -> None:
    """For preexec_fn: a test run started by nohup or in the background hands ignored signals down."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
