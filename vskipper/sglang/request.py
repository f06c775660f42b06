"""A request's plan (its prefill and its decode mode) and what became of it, kept on the engine's own request."""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vskipper.policy import Phase, PolicyCapabilities
from vskipper.request_key import request_key
from vskipper.sglang.config import Mode


class RequestMode(StrEnum):
    """How the rows of one phase of a request run."""

    DENSE = "dense"
    ROUTED = "routed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPlan:
    """prefill: of the rows of the prompt. decode: of every later row, also when it is computed again after a
    retraction (clauses MODE-3, LIFE-1)."""

    prefill: RequestMode
    decode: RequestMode

    def mode(self, phase: Phase) -> RequestMode:
        return self.prefill if phase == Phase.PREFILL else self.decode

    @property
    def differs(self) -> bool:
        return self.prefill != self.decode


@dataclass(slots=True, kw_only=True)
class RequestState:
    """key: what the policy sees of the request. prompt_length: rows at lower positions are of phase prefill.
    pairs, skipped: (row, routed layer) pairs that ran and those that were PROJECT_ONLY, by phase; rows of dense phases
    are not counted. fallen: decode positions, ascending, that run dense although the plan says routed, since no graph
    covered their batch; uncovered: pairs of such rows. promoted: decode rows have run routed after a dense prefill.
    failure: what the policy broke down with in one of this request's passes; from then on it runs dense until it is
    ended."""

    plan: RequestPlan
    key: int
    prompt_length: int
    pairs: dict[Phase, int] = field(default_factory=lambda: dict.fromkeys(Phase, 0))
    skipped: dict[Phase, int] = field(default_factory=lambda: dict.fromkeys(Phase, 0))
    fallen: list[range] = field(default_factory=list)
    uncovered: int = 0
    promoted: bool = False
    failure: str | None = None

    def phase(self, position: int) -> Phase:
        return Phase.PREFILL if position < self.prompt_length else Phase.DECODE

    def mode(self, position: int) -> RequestMode:
        """How the row at `position` runs, whenever it is computed."""
        dense = self.failure is not None or self._fell(position)
        return RequestMode.DENSE if dense else self.plan.mode(self.phase(position))

    def _fell(self, position: int) -> bool:
        if not self.fallen:
            return False
        number = bisect_right(self.fallen, position, key=lambda span: span.start)
        return number > 0 and position in self.fallen[number - 1]

    def fall(self, position: int, *, for_good: bool) -> None:
        """The decode row at `position`, the highest so far, runs dense; for_good: and so do all after it."""
        stop = sys.maxsize if for_good else position + 1
        if self.fallen and self.fallen[-1].stop == position:
            self.fallen[-1] = range(self.fallen[-1].start, stop)
        else:
            self.fallen.append(range(position, stop))

    def edges(self, first: int, stop: int) -> list[int]:
        """`first`, `stop`, and the positions between them where another phase or another mode begins; ascending."""
        if stop - first == 1:
            # asked of every row of every decode pass
            return [first, stop]
        known = (self.prompt_length, *(edge for span in self.fallen for edge in (span.start, span.stop)))
        return sorted({first, stop, *(edge for edge in known if first < edge < stop)})

    @property
    def mixes(self) -> bool:
        """Whether rows of it run in both modes."""
        return self.plan.differs or bool(self.fallen)

    def count(self, phase: Phase, *, pairs: int, skipped: int) -> None:
        """Count routed rows of `phase`."""
        self.pairs[phase] += pairs
        self.skipped[phase] += skipped

    def promote(self) -> bool:
        """Note a promotion; True the first time that decode rows have run routed after a dense prefill."""
        before = self.promoted
        self.promoted = self.plan.prefill == RequestMode.DENSE and self.pairs[Phase.DECODE] > 0
        return self.promoted and not before

    def summary(self) -> dict[str, Any]:
        """Plan and skipped share by phase, None where no row of the phase was to run routed; JSON values."""
        pairs = {Phase.PREFILL: self.pairs[Phase.PREFILL], Phase.DECODE: self.pairs[Phase.DECODE] + self.uncovered}
        shares = {phase: self.skipped[phase] / pairs[phase] if pairs[phase] else None for phase in Phase}
        return {
            "prefill": self.plan.prefill.value,
            "decode": self.plan.decode.value,
            "skipped_share": {phase.name.lower(): share for phase, share in shares.items()},
        }


def choose_plan(mode: Mode, capabilities: PolicyCapabilities, request_id: str, seed: int) -> RequestPlan:
    """The plan of a request under the configured mode. A phase that the policy does not serve runs dense, and so does
    decode after a dense prefill that it does not tolerate. by-request draws both modes from the id and the seed."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=1, key=seed.to_bytes(8, "little")).digest()[0]
    wanted = {
        Phase.PREFILL: mode == "routed" or (mode == "by-request" and bool(digest & 1)),
        Phase.DECODE: mode == "routed" or (mode == "by-request" and bool(digest & 2)),
    }
    routed = {phase: wanted[phase] and phase in capabilities.phases for phase in Phase}
    if not routed[Phase.PREFILL] and not capabilities.tolerates_dense_prefix:
        routed[Phase.DECODE] = False
    prefill, decode = (RequestMode.ROUTED if routed[phase] else RequestMode.DENSE for phase in Phase)
    return RequestPlan(prefill=prefill, decode=decode)


def new_state(plan: RequestPlan, request_id: str, prompt_length: int) -> RequestState:
    """The state of a request that has just come in."""
    return RequestState(plan=plan, key=request_key(request_id), prompt_length=prompt_length)
