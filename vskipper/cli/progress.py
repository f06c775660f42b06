"""The suite's events as a progress bar on standard error, and gathered into one record."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Course:
    """How far the suite has come, as its events tell."""

    def __init__(self) -> None:
        self._total = 0
        self._ended = 0
        self._begun: dict[str, float] = {}

    def follow(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "plan":
                self._total = event["total"]
            case "start":
                self._begun[event["item"]] = time.monotonic()
            case "item":
                self._ended += 1
                self._begun.pop(event["item"], None)

    def __str__(self) -> str:
        if not self._total:
            return "before the suite had begun"
        now = time.monotonic()
        under_way = [f"{item} for {now - begun:.0f} s" for item, begun in self._begun.items()]
        return f"after {self._ended} of {self._total} items; under way: {', '.join(under_way) or 'none'}"


def show_progress(events: Iterable[dict[str, Any]], course: Course) -> dict[str, Any]:
    """Consume the events, of which `course` takes note; returns manifest, waivers, results and kills, each as JSON."""
    record: dict[str, Any] = {"results": [], "kills": []}
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)
        for event in events:
            course.follow(event)
            _advance(progress, task, event)
            match event["event"]:
                case "result":
                    record["results"].append(event["result"])
                case "kill":
                    record["kills"].append(event["kill"])
                case "done":
                    record |= {"manifest": event["manifest"], "waivers": event["waivers"]}
    return record


def _advance(progress: Progress, task: TaskID, event: dict[str, Any]) -> None:
    match event["event"]:
        case "plan":
            progress.update(task, total=event["total"])
        case "start":
            # an item's name may hold what rich would read as markup
            progress.update(task, description=event["item"].replace("[", r"\["))
        case "item":
            progress.advance(task)
