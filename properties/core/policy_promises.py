"""POL-1: each capability that a policy declares, tested on the policy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis.strategies import SearchStrategy

from properties.case import RowsCase
from properties.core.policy_cases import note_width, rows_cases, spread
from properties.core.policy_rows import Decisions, ask, first_change
from properties.property import Property, Subject
from properties.violation import Violation
from vskipper.locate import hook_location
from vskipper.policy import Phase, PolicyCapabilities

CLAUSE = "POL-1"
# rows that are asked alone, and places at which a request is cut: of a few small requests all, of wide passes some
ALONE = 12
CUTS = 11
# A is the case's own pass, B another: both parities, and A after a B and after none
ORDER = "AAABBA"


def _cases(subject: Subject) -> SearchStrategy[RowsCase]:
    return rows_cases(subject)


def _capabilities(subject: Subject) -> PolicyCapabilities:
    declared: PolicyCapabilities = subject.make_policy(subject.model.dtype).capabilities
    return declared


def declares(*names: str) -> Callable[[Subject], str | None]:
    """Unsupported unless the policy declares each of the capabilities `names`."""

    def missing(subject: Subject) -> str | None:
        declared = _capabilities(subject)
        return next((f"not_declared_{name}" for name in names if not getattr(declared, name)), None)

    return missing


def _compare(subject: Subject, capability: str, reason: str, one: Decisions, two: Decisions, **facts: object) -> None:
    found = first_change(one, two, subject.model.dtype, exact=capability == "deterministic")
    if found is not None:
        where = hook_location(subject.make_policy(subject.model.dtype), "route")
        name = {"policy": subject.policy_name, "hook": "route", "location": where, "capability": capability}
        raise Violation(CLAUSE, reason, name | facts | found)
    subject.seen["decisions"] += len(two)


def check_deterministic(subject: Subject, case: RowsCase) -> None:
    """The same pass several times, with others between, gives the same bits."""
    policy = subject.make_policy(subject.model.dtype)
    first: Decisions | None = None
    for number, which in enumerate(ORDER):
        if which == "B":
            ask(policy, subject, replace(case, seed=case.seed + 1), case.order, 0)
            continue
        found = ask(policy, subject, case, range(case.rows), case.padding)
        first = found if first is None else first
        _compare(subject, "deterministic", "not_deterministic", first, found, passes_before=number)
    note_width(subject, case)


def check_batch_invariant(subject: Subject, case: RowsCase) -> None:
    """Rows alone, all of them in another order before padding rows, and every second among rows that run dense."""
    policy = subject.make_policy(subject.model.dtype)
    crowd = ask(policy, subject, case, range(case.rows), 0)
    for dense in (frozenset(case.order[start::2]) for start in (0, 1) if case.rows > 1):
        among = ask(policy, subject, case, case.order, case.padding, dense=dense)
        _compare(subject, "batch_invariant", "depends_on_batch", crowd, among, dense_rows=len(dense))
    for rows, padding in [((row,), 0) for row in spread(range(case.rows), ALONE)] + [(case.order, case.padding)]:
        _compare(subject, "batch_invariant", "depends_on_batch", crowd, ask(policy, subject, case, rows, padding))
    subject.seen["neighbours"] += case.rows - 1
    note_width(subject, case)


def check_chunk_invariant(subject: Subject, case: RowsCase) -> None:
    """Each request's rows in one chunk, and cut in two at every place, or at some of many."""
    policy = subject.make_policy(subject.model.dtype)
    start = 0
    for length in case.lengths:
        rows = range(start, start + length)
        start += length
        whole = ask(policy, subject, case, rows, 0)
        for cut in spread(range(1, length), CUTS):
            for part in (rows[:cut], rows[cut:]):
                found = ask(policy, subject, case, part, 0)
                _compare(subject, "chunk_invariant", "depends_on_chunk", whole, found, cut=cut)
            subject.seen["cuts"] += 1
    note_width(subject, case)


def check_prefix_determined(subject: Subject, case: RowsCase) -> None:
    """The same tokens under another request id, among other neighbours, and as the other phase."""
    policy = subject.make_policy(subject.model.dtype)
    rows: Sequence[int] = range(case.rows)
    first = ask(policy, subject, case, rows, 0)
    others: list[tuple[str, Decisions]] = [("request_id", ask(policy, subject, case, rows, 0, rename="other-"))]
    if _capabilities(subject).phases == frozenset(Phase):
        flipped = [start > 0 and not decode for start, decode in zip(case.starts, case.decodes, strict=True)]
        others.append(("phase", ask(policy, subject, case, rows, 0, decodes=flipped)))
    others += [("neighbours", ask(policy, subject, case, (row,), 0)) for row in spread(rows, ALONE)]
    for changed, found in others:
        _compare(subject, "prefix_determined", "not_prefix_determined", first, found, changed=changed)
    note_width(subject, case)


POLICY_DETERMINISTIC = Property(
    id="policy.deterministic",
    clause=CLAUSE,
    title="the same rows get the same decisions",
    cases=_cases,
    check=check_deterministic,
    counters=("decisions", "wide_passes"),
    examples=40,
    scope="policy",
    unsupported=declares("deterministic"),
)
POLICY_BATCH_INVARIANT = Property(
    id="policy.batch_invariant",
    clause=CLAUSE,
    title="a row's decision does not depend on the other rows or their order",
    cases=_cases,
    check=check_batch_invariant,
    counters=("decisions", "neighbours", "wide_passes"),
    examples=40,
    scope="policy",
    unsupported=declares("batch_invariant", "deterministic"),
)
POLICY_CHUNK_INVARIANT = Property(
    id="policy.chunk_invariant",
    clause=CLAUSE,
    title="a row's decision does not depend on where its request was cut into chunks",
    cases=_cases,
    check=check_chunk_invariant,
    counters=("decisions", "cuts", "wide_passes"),
    examples=40,
    scope="policy",
    unsupported=declares("chunk_invariant", "deterministic"),
)
POLICY_PREFIX_DETERMINED = Property(
    id="policy.prefix_determined",
    clause=CLAUSE,
    title="a row's decision follows from its own prefix of tokens alone",
    cases=_cases,
    check=check_prefix_determined,
    counters=("decisions", "wide_passes"),
    examples=40,
    scope="policy",
    unsupported=declares("prefix_determined"),
)
