"""Where pages lie: strategies for pools, and an allocator that hands pages out in awkward orders."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from properties.codec import case_type

Arrangement = Literal["contiguous", "backwards", "interleaved", "shuffled", "high"]
ARRANGEMENTS: tuple[Arrangement, ...] = ("contiguous", "backwards", "interleaved", "shuffled", "high")
# enough that a slot number kept in too few bits, or taken modulo the rows, lands elsewhere
HIGH_GAP_SLOTS = 320


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How pages are handed out. spare: pages that nobody will own. seed: of the shuffled order."""

    page_size: int
    arrangement: Arrangement = "contiguous"
    spare: int = 1
    seed: int = 0


@st.composite
def placements(
    draw: st.DrawFn, page_sizes: Sequence[int], arrangements: Sequence[Arrangement] = ARRANGEMENTS
) -> Placement:
    """Pages of the smallest size in the first arrangement first."""
    arrangement = draw(st.sampled_from(arrangements))
    return Placement(
        page_size=draw(st.sampled_from(sorted(page_sizes))),
        arrangement=arrangement,
        spare=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 255)) if arrangement == "shuffled" else 0,
    )


class Pages:
    """A free list of pages 1 .. pages - 1 (0 is the dummy page). What is freed is handed out again first."""

    def __init__(self, placement: Placement, needed: int) -> None:
        gap = -(-HIGH_GAP_SLOTS // placement.page_size) if placement.arrangement == "high" else 0
        first = 1 + gap
        self.placement = placement
        self.pages = first + needed + placement.spare
        # the last pages are the ones that are used where numbers are to be high
        self._free = list(range(1 + placement.spare + gap if gap else 1, self.pages))
        if placement.arrangement == "backwards":
            self._free.reverse()
        if placement.arrangement == "shuffled":
            random.Random(placement.seed).shuffle(self._free)
        self._holders: Counter[int] = Counter()

    def take(self, count: int) -> tuple[int, ...]:
        """`count` free pages; every other one where requests are interleaved. Raises ValueError when too few are."""
        if count > len(self._free):
            raise ValueError(f"pages: got {count} asked for, expected at most {len(self._free)}")
        stride = 2 if self.placement.arrangement == "interleaved" and 2 * count <= len(self._free) else 1
        taken = tuple(self._free[: stride * count : stride])
        self._free = [page for page in self._free if page not in taken]
        self.hold(taken)
        return taken

    def hold(self, pages: Sequence[int]) -> None:
        """One more holder of each page."""
        self._holders.update(pages)

    def release(self, pages: Sequence[int]) -> None:
        """One holder fewer; a page without holders is free again."""
        self._holders.subtract(pages)
        self._free[:0] = [page for page in pages if self._holders[page] == 0]
