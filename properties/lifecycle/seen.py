"""How often the interesting thing really happened in a run: vacuity counters of the lifecycle properties."""

from __future__ import annotations

from properties.lifecycle.engine import FINISHED, History
from properties.lifecycle.paths import paths
from properties.property import Subject


def note(subject: Subject, history: History) -> None:
    """Raise the subject's counters."""
    seen, requests = subject.seen, history.requests
    for name, turns in paths(history).items():
        prompt = len(requests[name].prompt)
        seen["prefix_hits"] += turns[0][0].first > 0
        seen["hits_after_retraction"] += sum(turn[0].first > 0 for turn in turns[1:])
        seen["chunked"] += sum(sum(piece.first < prompt for piece in turn) > 1 for turn in turns)
    for each in history.passes:
        phases = {row.position >= len(requests[row.request].prompt) for row in each.rows}
        seen["mixed_passes"] += len(phases) == 2 and len({row.request for row in each.rows}) > 1
    finished = [each for each in requests.values() if each.finish in FINISHED]
    seen["finished"] += len(finished)
    seen["retractions"] += len(history.retracted)
    seen["aborts"] += sum(each.finish == "abort" for each in requests.values())
    seen["promotions"] += sum(("dense", "routed") in each.plans for each in finished)
    seen["slot_reuses"] += _reuses(history)


def _reuses(history: History) -> int:
    """Slots that more than one request wrote."""
    writers: dict[int, set[str]] = {}
    for each in history.passes:
        for row in each.rows:
            writers.setdefault(row.slot, set()).add(row.request)
    return sum(len(names) > 1 for names in writers.values())
