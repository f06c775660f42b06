"""The suite's end of the socket: calls of an agent, and the questions that it asks back."""

from __future__ import annotations

import secrets
from concurrent.futures import Future
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any, Final

from conformance.runtimes.sglang.server.wire import ADDRESS, KEY, AgentError, Call, Raised, Released, Returned
from conformance.runtimes.sglang.server.wire import receive as receive_from
from conformance.runtimes.sglang.server.wire import send as send_to

# seconds until a server that says nothing is one that hangs
PATIENCE: Final = 300.0


class Link:
    """Listens in `folder` from the start; the agent comes by itself once its server runs."""

    def __init__(self, folder: Path) -> None:
        self._key = secrets.token_bytes(32)
        self._address = str(folder / "agent")
        self._listener = Listener(self._address, "AF_UNIX", authkey=self._key)
        self._accepted: Future[Connection] = Future()
        # a daemon: of a server that never starts no agent comes
        Thread(target=self._accept, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """Of the server that the agent comes from."""
        return {ADDRESS: self._address, KEY: self._key.hex()}

    def call(self, name: str, *arguments: Any) -> Any:
        """What the method of the agent's desk returned; raises what it raised, and AgentError where none comes."""
        self.send(Call(name=name, arguments=arguments))
        return answer_of(self.receive())

    def send(self, message: object) -> None:
        send_to(self._connection, message)

    def poll(self, seconds: float) -> bool:
        """Whether the agent says something within that time."""
        return self._connection.poll(seconds)

    def receive(self) -> Any:
        """The agent's next message."""
        if not self._connection.poll(PATIENCE):
            raise AgentError(f"the server has said nothing for {PATIENCE} s")
        try:
            return receive_from(self._connection)
        except EOFError as error:
            raise AgentError("the server has ended") from error

    def close(self) -> None:
        """Let go of the server."""
        self._listener.close()
        if not self._accepted.done() or self._accepted.exception() is not None:
            return
        with self._accepted.result() as connection:
            try:
                send_to(connection, Released())
            except OSError:
                # it is gone already
                return

    @property
    def _connection(self) -> Connection:
        return self._accepted.result(PATIENCE)

    def _accept(self) -> None:
        try:
            self._accepted.set_result(self._listener.accept())
        except Exception as error:
            self._accepted.set_exception(error)


def answer_of(message: Any) -> Any:
    """A call's value; raises what it raised."""
    if isinstance(message, Raised):
        raise message.error()
    if not isinstance(message, Returned):
        raise AgentError(f"answer of a call: got {message}")
    return message.value
