"""The suite's events as a progress bar on standard error, and gathered into one record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


def show_progress(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Consume the events; returns manifest, waivers, results and kills, each as JSON."""
    record: dict[str, Any] = {"results": [], "kills": []}
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=None)
        for event in events:
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
