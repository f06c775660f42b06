"""How often the interesting thing really happened in a run: vacuity counters of the lifecycle properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from properties.lifecycle.engine import FINISHED, History
from properties.lifecycle.paths import paths
from properties.property import Subject


def note(subject: Subject, history: History, names: Collection[str]) -> None:
    """Raise those of the subject's counters that the property names; others would stand in its result at whatever they
    happen to be."""
    seen = counts(history)
    subject.seen.update({name: seen[name] for name in names if name in seen})


def counts(history: History) -> Counter[str]:
    """Of one run."""
    seen: Counter[str] = Counter()
    requests = history.requests
    for name, turns in paths(history).items():
        prompt = len(requests[name].prompt)
        seen["prefix_hits"] += turns[0][0].first > 0
        seen["chunked"] += sum(sum(piece.first < prompt for piece in turn) > 1 for turn in turns)
    for each in history.passes:
        phases = {row.position >= len(requests[row.request].prompt) for row in each.rows}
        seen["routed_replays"] += each.replayed and each.actions is not None
        seen["mixed_passes"] += len(phases) == 2 and len({row.request for row in each.rows}) > 1
    finished = [each for each in requests.values() if each.finish in FINISHED]
    seen["finished"] += len(finished)
    seen["retractions"] += len(history.retracted)
    seen["aborts"] += sum(each.finish == "abort" for each in requests.values())
    seen["promotions"] += sum(("dense", "routed") in each.plans for each in finished)
    seen["slot_reuses"] += _reuses(history)
    return seen


def _reuses(history: History) -> int:
    """Slots that more than one request wrote."""
    writers: dict[int, set[str]] = {}
    for each in history.passes:
        for row in each.rows:
            writers.setdefault(row.slot, set()).add(row.request)
    return sum(len(names) > 1 for names in writers.values())
