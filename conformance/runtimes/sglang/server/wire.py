"""What the suite and its agent in a server say to each other, over one socket that only the two of them can open.

A call is answered by what it returned or by how it failed. While a call runs, the agent may ask back; until the suite
has answered, it takes further calls.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from traceback import format_exc
from typing import Any, Final

from properties.lifecycle.engine import Command

# of the server's environment: where the suite listens, and the key to it in hexadecimal digits
ADDRESS: Final = "VSKIPPER_SUITE_ADDRESS"
KEY: Final = "VSKIPPER_SUITE_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """name: of a method of the agent's desk."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A call's answer."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """A call's failure. arguments and state: of the error, to make it again; trace: where it was raised."""

    kind: type[Exception]
    arguments: tuple[Any, ...]
    state: dict[str, Any]
    trace: str

    def error(self) -> Exception:
        error: Exception = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.state)
        error.add_note(f"in the server:\n{self.trace}")
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The agent asks what comes in at this iteration of the loop."""

    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The suite's answer: a Control's."""

    commands: tuple[Command, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The agent holds the loop until the command of this number has come in by the server's own channel."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """The suite's answer where it never will."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The server is its own again."""


class AgentError(RuntimeError):
    """A failure in the server that cannot be made again here; the message is its traceback."""


def send(connection: Connection, message: object) -> None:
    """By value: what the connection's own pickling shares between processes would be shared in turns only."""
    connection.send_bytes(pickle.dumps(message))


def receive(connection: Connection) -> Any:
    """Raises EOFError where the other side is gone."""
    return pickle.loads(connection.recv_bytes())


def outcome(call: Callable[[], Any]) -> Returned | Raised:
    """Run it, whatever comes of it."""
    try:
        return Returned(value=call())
    except Exception as error:
        raised = Raised(kind=type(error), arguments=error.args, state=dict(vars(error)), trace=format_exc())
    with suppress(Exception):
        # some errors hold what does not travel
        pickle.loads(pickle.dumps(raised))
        return raised
    return Raised(kind=AgentError, arguments=(raised.trace,), state={}, trace=raised.trace)
