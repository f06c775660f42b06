"""By which way requests reach the scheduler and answers leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from conformance.runtimes.sglang.scheduler.commands import message
from conformance.runtimes.sglang.scheduler.watch import Watched
from properties.lifecycle.engine import Command


class Channel(Protocol):
    """Where the event loop polls its sockets and puts its outputs."""

    def receive(self, commands: Sequence[Command], requests: Mapping[str, Watched]) -> list[Any]:
        """The engine's messages that an iteration begins with: the commands, in their order, and whatever else has
        come. requests: all so far, by name."""

    def send(self, output: Any, *arguments: Any) -> None:
        """What goes to the detokenizer."""


class DirectChannel:
    """Messages made here; nobody waits for the answers."""

    def receive(self, commands: Sequence[Command], requests: Mapping[str, Watched]) -> list[Any]:
        return [message(command) for command in commands]

    def send(self, output: Any, *arguments: Any) -> None:
        pass
