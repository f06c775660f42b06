"""What a signal that asks the program to end becomes."""

from __future__ import annotations

import signal


class Interrupted(BaseException):
    """number: the signal's. told: what was going on, for whoever interrupted. No Exception, so that nothing on the way
    takes it for a failure."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told = ""
        super().__init__(signal.Signals(number).name)
