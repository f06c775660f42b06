"""A route tape for the report's picture: the policy's own routes for one prompt on the model asked for."""

from __future__ import annotations

from properties.property import Subject
from reference.plan import Chunk, PoolLayout, StepPlan
from vskipper.action import LETTERS, Action

ROWS = 32


def sample_tape(subject: Subject) -> tuple[str, ...]:
    """One string of action letters a routed layer, one letter a row of a prefill of ROWS tokens."""
    tokens = tuple((7 * i * i + 11 * i + 5) % subject.model.config.vocab_size for i in range(ROWS))
    pages = tuple(range(1, ROWS + 1))
    plan = StepPlan(chunks=(Chunk(request="sample", tokens=tokens, start=0, pages=pages, phase="prefill"),))
    layout = PoolLayout(page_size=1, pages=ROWS + 1)
    session = subject.runtime.open(subject.model, subject.served_policy(), layout, "routed")
    actions = session.step(plan).actions.tolist()
    session.close()
    return tuple("".join(LETTERS[Action(code)] for code in line) for line in actions)
