"""What every built-in runtime refuses before it touches a tensor (clause IN-1)."""

from __future__ import annotations

from reference.plan import PoolLayout, StepPlan
from vskipper.errors import InputError


def check_layout(layout: PoolLayout) -> None:
    """Raises InputError unless the page size is a power of two and there is a page beside the dummy one."""
    size = layout.page_size
    if size < 1 or size & (size - 1):
        raise InputError("page size", where="pool layout", got=size, expected="a power of two")
    if layout.pages < 2:
        raise InputError("pages", where="pool layout", got=layout.pages, expected="2 or more, page 0 is the dummy page")


def check_plan(plan: StepPlan, layout: PoolLayout) -> None:
    """Raises InputError for a pass without rows, or whose rows lie outside their request's pages or the pool's."""
    if plan.rows == 0:
        raise InputError("zero rows", where="step plan", got="no chunk with a token", expected="one row or more")
    for chunk in plan.chunks:
        where = f"step plan, request {chunk.request}"
        needed = -(-(chunk.start + len(chunk.tokens)) // layout.page_size)
        if len(chunk.pages) < needed:
            raise InputError("too few pages", where=where, got=len(chunk.pages), expected=f"{needed} or more")
        beyond = [page for page in chunk.pages if not 0 < page < layout.pages]
        if beyond:
            raise InputError("page outside the pool", where=where, got=beyond, expected=f"1 to {layout.pages - 1}")
