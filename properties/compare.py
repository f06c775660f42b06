"""Two comparisons and no third: bit for bit, or inside an envelope around float64 truth (docs/contract.md).

NaN is never equal to anything here but to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from properties import margin
from properties.bits import bits
from properties.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """err(X, T) <= k * err(R, T) + floor: X the runtime, R the reference in its dtype, T the reference in float64.

    err: the largest difference in a row, as a share of the largest value of T in that row (1 where that is smaller).
    floor: in units of the dtype's epsilon; narrow_floor in its place for a dtype narrower than float32.
    """

    k: float = 8.0
    floor: float = 32.0
    narrow_floor: float = 4.0

    @classmethod
    def of_layers(cls, layers: int) -> Envelope:
        """For what went through a decoder of so many layers. Where one direction carries most of the error, R lies by
        luck far nearer to T than it usually does, most of all in passes of one row; what a layer usually adds is
        allowed whatever R shows."""
        return cls(floor=8.0 * layers, narrow_floor=0.5 * layers)

    def least(self, dtype: torch.dtype) -> float:
        """The floor as an err."""
        eps = torch.finfo(dtype).eps
        return (self.floor if eps <= torch.finfo(torch.float32).eps else self.narrow_floor) * eps

    def bound(self, reference: Tensor, truth: Tensor) -> float:
        """The largest err allowed, from all rows of R [rows, ...]; inf never: a reference that is not finite raises."""
        error = row_errors(reference, truth)
        if not bool(torch.isfinite(error).all()):
            raise ValueError("envelope: the reference is not finite")
        return self.k * float(error.max()) + self.least(reference.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """count: elements that differ. index: the first of them. got, expected: its two values."""

    count: int
    index: tuple[int, ...]
    got: float
    expected: float

    def facts(self) -> dict[str, object]:
        return {
            "differing": self.count,
            "index": ",".join(map(str, self.index)),
            "got": self.got,
            "expected": self.expected,
        }


def row_errors(got: Tensor, truth: Tensor) -> Tensor:
    """err of each row of [rows, ...], float64; inf where a value is not finite."""
    wide = got.detach().to("cpu", torch.float64).flatten(1)
    true = truth.detach().to("cpu", torch.float64).flatten(1)
    error = (wide - true).abs().amax(1) / true.abs().amax(1).clamp_min(1.0)
    return torch.where(torch.isfinite(wide).all(1), error, torch.inf)


def outside(got: Tensor, reference: Tensor, truth: Tensor, rule: Envelope) -> tuple[int, dict[str, object]] | None:
    """The first row of got [rows, ...] outside the envelope, with facts; None when all are inside. Notes the margin."""
    check_shape(got, truth)
    bound = rule.bound(reference, truth)
    error = row_errors(got, truth)
    margin.note(float(error.max()) / bound)
    bad = torch.nonzero(~(error <= bound))
    if bad.numel() == 0:
        return None
    row = int(bad[0])
    return row, {"err": f"{float(error[row]):.3g}", "allowed": f"{bound:.3g}", "k": rule.k}


def check_shape(got: Tensor, expected: Tensor) -> None:
    """Same shape; raises Violation."""
    if got.shape != expected.shape:
        raise Violation("SEM-1", "wrong_shape", {"got": tuple(got.shape), "expected": tuple(expected.shape)})


def differing(got: Tensor, expected: Tensor) -> Difference | None:
    """The first element whose bits differ; None when none does. Both tensors of one shape and dtype."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise ValueError(
            f"compare: got {got.dtype} {tuple(got.shape)}, expected {expected.dtype} {tuple(expected.shape)}"
        )
    got, expected = got.detach().cpu().contiguous(), expected.detach().cpu().contiguous()
    unequal = bits(got) != bits(expected)
    if not bool(unequal.any()):
        return None
    first = int(torch.nonzero(unequal.flatten())[0])
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(first), got.shape)) if got.dim() else ()
    values = float(got.flatten()[first]), float(expected.flatten()[first])
    return Difference(count=int(unequal.sum()), index=index, got=values[0], expected=values[1])
