"""All that one chunk of a pass produced, as named tensors, so that two runs can be compared wherever its rows stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from properties.compare import Envelope, differing, outside
from properties.drive import Ran, unscaled
from properties.oracle import Answer
from properties.property import Subject
from properties.violation import Violation
from reference.plan import PoolLayout

View = Mapping[str, Tensor]


def view_of_run(ran: Ran, layout: PoolLayout, dtype: torch.dtype, chunk: int, rows: Sequence[int]) -> View:
    """Streams, K, V and logits of one chunk in the order in which they are computed; each [rows, ...]."""
    return _view(ran.result.hidden, unscaled(ran, layout, dtype), ran.result.logits, chunk, rows)


def views_of_oracle(answer: Answer, step: int, chunk: int, rows: Sequence[int]) -> tuple[View, View]:
    """The same of the oracle: R and T."""
    passes = answer.same[step], answer.truth[step]
    same, truth = (_view(each.result.hidden, each.kv, each.result.logits, chunk, rows) for each in passes)
    return same, truth


def _view(
    hidden: Tensor | None, kv: Sequence[tuple[Tensor, Tensor]], logits: Tensor, chunk: int, rows: Sequence[int]
) -> View:
    view: dict[str, Tensor] = {}
    index = list(rows)
    for layer, (k, v) in enumerate(kv):
        if hidden is not None:
            view[f"hidden[{layer}]"] = hidden[layer][index]
        view[f"k[{layer}]"] = k[index]
        view[f"v[{layer}]"] = v[index]
    if hidden is not None:
        view[f"hidden[{len(kv)}]"] = hidden[len(kv)][index]
    view["logits"] = logits[chunk : chunk + 1]
    return view


def first_outside(got: View, same: View, truth: View) -> dict[str, object] | None:
    """What of `got` first leaves the envelope, with its row in the chunk; None when nothing does."""
    rule = Envelope.of_layers(sum(name.startswith("k[") for name in got))
    for name, tensor in got.items():
        found = outside(tensor, same[name], truth[name], rule)
        if found is not None:
            return {"what": name, "chunk_row": found[0], **found[1]}
    return None


def first_difference(got: View, expected: View) -> dict[str, object] | None:
    """What of `got` first differs in a bit from `expected`, or is not finite: equal NaNs prove nothing."""
    for name, tensor in got.items():
        found = differing(tensor, expected[name])
        if found is not None:
            return {"what": name, **found.facts()}
        if not bool(torch.isfinite(tensor).all()):
            return {"what": name, "got": "not_finite", "expected": "finite"}
    return None


def check_invariant(
    subject: Subject,
    clause: str,
    reason: str,
    where: Mapping[str, object],
    pair: tuple[View, View],
    oracle: tuple[View, View],
) -> None:
    """pair: two runs of the same rows, bit for bit equal where the runtime declares row invariance; else the first of
    them within the envelope of oracle, R and T."""
    invariant = subject.runtime.capabilities.row_invariant
    found = first_difference(*pair) if invariant else first_outside(pair[0], *oracle)
    if found is not None:
        raise Violation(clause, reason, {**where, **found})
