"""What a row does at a routed layer: two bits, attention runs and MLP runs. K and V are written whatever they say."""

from __future__ import annotations

from enum import IntEnum

ATTENTION_BIT = 0b01
MLP_BIT = 0b10


class Action(IntEnum):
    """Codes of a route tape (uint8). A row with neither bit runs the projector instead."""

    PROJECT_ONLY = 0b00
    SKIP_MLP = 0b01
    SKIP_ATTN = 0b10
    RUN = 0b11

    @property
    def attention(self) -> bool:
        return bool(self & ATTENTION_BIT)

    @property
    def mlp(self) -> bool:
        return bool(self & MLP_BIT)


# cohorts lie side by side in this order, so that the rows that run attention, the rows that run the MLP and the
# rows that run the projector are one contiguous range each
COHORT_ORDER = (Action.SKIP_MLP, Action.RUN, Action.SKIP_ATTN, Action.PROJECT_ONLY)
LETTERS = {Action.RUN: "R", Action.PROJECT_ONLY: "P", Action.SKIP_ATTN: "A", Action.SKIP_MLP: "M"}
