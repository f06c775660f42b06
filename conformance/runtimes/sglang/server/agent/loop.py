"""The scheduler's own loop, left for the suite's calls once nothing is under way, and gone back to afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Client, Connection
from typing import Any
from unittest import mock

from conformance.runtimes.sglang.scheduler.session import is_idle
from conformance.runtimes.sglang.server.agent.desk import Desk
from conformance.runtimes.sglang.server.wire import Call, outcome, receive, send


class _Called(Exception):
    """Thrown through the event loop, which has no way out of its own."""


def attend(scheduler: Any, original: Callable[[Any], None], address: str, key: bytes) -> None:
    """Run the scheduler's loop to its end. It is the original one, but that each iteration begins with a look at the
    suite's socket; once the suite has gone, not even that."""
    with Client(address, authkey=key) as connection:
        while True:
            try:
                with _listening(scheduler, connection):
                    original(scheduler)
                return
            except _Called:
                pass
            try:
                _serve(scheduler, connection)
            except (EOFError, ConnectionError):
                break
    original(scheduler)


def _listening(scheduler: Any, connection: Connection) -> Any:
    """The loop's receive hook, preceded by that look."""
    receiver = type(getattr(scheduler, "request_receiver", scheduler))
    original = receiver.recv_requests

    def received(*arguments: Any, **keywords: Any) -> Any:
        if connection.poll() and is_idle(scheduler):
            raise _Called
        return original(*arguments, **keywords)

    return mock.patch.object(receiver, "recv_requests", received)


def _serve(scheduler: Any, connection: Connection) -> None:
    """Until the suite lets go of the server; raises EOFError where it is gone."""
    desk = Desk(scheduler, connection, partial(answer_calls, connection))
    try:
        answer_calls(connection, desk)
    finally:
        desk.close()


def answer_calls(connection: Connection, desk: Desk) -> Any:
    """Answer until something comes that is no call, and return that."""
    while True:
        message = receive(connection)
        if not isinstance(message, Call):
            return message
        send(connection, outcome(partial(getattr(desk, message.name), *message.arguments)))
