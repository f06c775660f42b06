"""The event stream of a certification: one JSON object a line on what was standard output."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, TextIO

import pytest

from vskipper.errors import InputError


class Events:
    """Keeps the real standard output for events and sends everything else that is printed to standard error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @classmethod
    def claim_stdout(cls) -> Events:
        stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        return cls(stream)

    def send(self, event: str, **fields: Any) -> None:
        self._stream.write(json.dumps({"event": event, **fields}) + "\n")
        self._stream.flush()

    def error(self, error: InputError, *, traceback: bool = False) -> None:
        """traceback: whether one was printed before, for whoever reads the log."""
        fields = {"what": error.what, "where": error.where, "got": error.got, "expected": error.expected}
        self.send("error", **fields, text=str(error), traceback=traceback)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """An item that ended without a record. reason: its exception in one line. text: all that pytest says of it."""

    reason: str
    text: str

    @classmethod
    def of(cls, report: pytest.TestReport | pytest.CollectReport) -> Crash:
        message = getattr(getattr(report.longrepr, "reprcrash", None), "message", None) or report.outcome
        return cls(reason=message.splitlines()[0], text=f"{report.nodeid}\n{report.longreprtext}")


class ItemReports:
    """A pytest plugin of the controlling process: collects what the items recorded, wherever they ran."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.results: list[dict[str, Any]] = []
        self.kills: list[dict[str, Any]] = []
        self.crashes: list[Crash] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._events.send("start", item=_item(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        recorded: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and "result" in recorded:
            self.results.append(recorded["result"])
        elif report.when == "call" and "kill" in recorded:
            self.kills.append(recorded["kill"])
        elif report.failed:
            self.crashes.append(Crash.of(report))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._events.send("item", item=_item(nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.crashes.append(Crash.of(report))


def _item(nodeid: str) -> str:
    """An item as the suite names it."""
    return nodeid.partition("[")[2].rstrip("]")
