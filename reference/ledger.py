"""Who wrote which slot: every K/V write of a run as integers, in the order of the writes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One write of one row's K and V at one layer. action: the code the row's tape held there (RUN outside routed
    layers). version: how often this request had written this position and layer before."""

    request: str
    position: int
    layer: int
    slot: int
    action: int
    version: int


class Ledger:
    """Integers only, so that two runs compare exactly."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._by_place: dict[tuple[int, int], Entry] = {}
        self._by_row: dict[tuple[str, int, int], Entry] = {}
        self._owners: dict[int, tuple[str, int]] = {}

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every write, oldest first."""
        return tuple(self._entries)

    def record(self, *, request: str, position: int, layer: int, slot: int, action: int) -> Entry:
        """Note one write and give its entry back."""
        before = self._by_row.get((request, position, layer))
        version = 0 if before is None else before.version + 1
        entry = Entry(request=request, position=position, layer=layer, slot=slot, action=action, version=version)
        self._entries.append(entry)
        self._by_place[layer, slot] = entry
        self._by_row[request, position, layer] = entry
        self._owners[slot] = (request, position)
        return entry

    def written(self, layer: int, slot: int) -> Entry | None:
        """The last write to `slot` of `layer`, or None: its bytes are still those the pool began with."""
        return self._by_place.get((layer, slot))

    def owner(self, slot: int) -> tuple[str, int] | None:
        """Request and position of the last write to `slot` at any layer. A shared prefix stays its writer's."""
        return self._owners.get(slot)

    def version(self, request: str, position: int, layer: int) -> int | None:
        """Rewrites so far of this row at this layer, or None when it was never written."""
        entry = self._by_row.get((request, position, layer))
        return None if entry is None else entry.version
