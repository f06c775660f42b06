"""What a pass is asked to do, in integers only: chunks of requests, page tables, padding, forced routes.

Plans are drawn before any tensor exists, so that a failing one shrinks fast and reads well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Phase = Literal["prefill", "decode"]
Fill = Literal["zero", "nan", "inf", "old"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLayout:
    """A paged KV pool of `pages` pages of `page_size` slots (a power of two). Page 0 is the dummy page: padding rows
    write there, nobody owns it. kv_dtype None stores in the dtype of the hidden states; stored = value / scale."""

    page_size: int
    pages: int
    kv_dtype: str | None = None
    k_scale: float = 1.0
    v_scale: float = 1.0

    @property
    def slots(self) -> int:
        return self.page_size * self.pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive rows of one request: `tokens` at positions start, start + 1, ...

    pages: the request's page table; position p lives in slot pages[p // page_size] * page_size + p % page_size.
    A decode chunk has one token.
    """

    request: str
    tokens: tuple[int, ...]
    start: int
    pages: tuple[int, ...]
    phase: Phase

    def slot(self, position: int, page_size: int) -> int:
        return self.pages[position // page_size] * page_size + position % page_size

    def own_slots(self, page_size: int) -> tuple[int, ...]:
        """Slots this chunk writes, in row order."""
        return tuple(self.slot(self.start + i, page_size) for i in range(len(self.tokens)))

    def context_slots(self, length: int, page_size: int) -> tuple[int, ...]:
        """Slots of positions 0 .. length - 1."""
        return tuple(self.slot(p, page_size) for p in range(length))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One pass: the chunks' rows in order, then `padding` rows that write to slot 0 and whose hidden states start as
    `fill` (old: whatever the buffers held)."""

    chunks: tuple[Chunk, ...]
    padding: int = 0
    fill: Fill = "zero"

    @property
    def rows(self) -> int:
        """Valid rows; padding not counted."""
        return sum(len(chunk.tokens) for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TapePlan:
    """Forced routes of one pass. actions[i][r]: action code of valid row r at the i-th routed layer.

    eighths[i][r]: w * 8, an integer 0..8, for gate mode weighted; None for gate mode hard. Eighths are exact in every
    floating-point format.
    """

    actions: tuple[tuple[int, ...], ...]
    eighths: tuple[tuple[int, ...], ...] | None = None
