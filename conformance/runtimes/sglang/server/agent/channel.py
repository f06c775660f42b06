"""The server's own channel, held open until what is due has come in by it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from conformance.runtimes.sglang.scheduler.watch import Watched
from conformance.runtimes.sglang.server.wire import Lost, Wanted, receive, send
from properties.lifecycle.engine import Abort, Command

# seconds between two looks, and until a message that has not come never will
PAUSE = 0.0005
PATIENCE = 120.0


class HeldChannel:
    """Implements Channel. One command at a time is under way, so that they come in in their order."""

    def __init__(self, scheduler: Any, connection: Connection) -> None:
        receiver = getattr(scheduler, "request_receiver", scheduler)
        outlet = getattr(scheduler, "ipc_channels", scheduler).send_to_detokenizer
        self._poll = partial(type(receiver).recv_requests, receiver)
        self._put = outlet.send_output
        self._connection = connection
        self._gone: set[str] = set()

    def receive(self, commands: Sequence[Command], requests: Mapping[str, Watched]) -> list[Any]:
        came = list(self._poll() or ())
        for number, command in enumerate(commands):
            if isinstance(command, Abort):
                # nobody waits for it any more: the server does not pass this on
                if command.name in self._gone or command.name not in requests or requests[command.name].over:
                    continue
                self._gone.add(command.name)
            else:
                self._gone.discard(command.name)
            send(self._connection, Wanted(number=number))
            came += self._awaited(command)
        return came

    def send(self, output: Any, *arguments: Any) -> None:
        self._put(output, *arguments)

    def _awaited(self, command: Command) -> list[Any]:
        """All that comes up to the command."""
        until = time.monotonic() + PATIENCE
        came: list[Any] = []
        while not any(_is(each, command) for each in came):
            if self._connection.poll(PAUSE):
                answer = receive(self._connection)
                raise RuntimeError(answer.reason if isinstance(answer, Lost) else f"unexpected {answer}")
            if time.monotonic() > until:
                raise RuntimeError(f"{command} has not come in after {PATIENCE} s")
            came += self._poll() or ()
        return came


def _is(message: Any, command: Command) -> bool:
    """Whether the engine's message is that command's."""
    aborts = type(message).__name__ == "AbortReq"
    return getattr(message, "rid", None) == command.name and aborts == isinstance(command, Abort)
