"""Ports of the loopback, for what the processes of this machine tell each other."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from typing import Final

HOST: Final = "127.0.0.1"
# below those that systems hand out by themselves: any connection may have one of these before it is used
PORTS: Final = range(15_000, 32_000)
TRIES: Final = 100


def free_port() -> int:
    """One that was free a moment ago, chosen by chance. Raises RuntimeError where there is none."""
    # tests seed the other generator, and all alike
    chosen = random.SystemRandom()
    for _ in range(TRIES):
        port = chosen.choice(PORTS)
        with closing(socket.socket()) as found:
            try:
                found.bind((HOST, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"ports of {HOST}: got none free of {TRIES} tried, expected one of {PORTS}")
