"""Prometheus' text format, as far as counters and gauges need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line: a metric under one set of labels."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """All of an endpoint at one moment."""

    every: tuple[Sample, ...]

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric over all lines that carry these labels; 0 where there is none."""
        return sum(sample.value for sample in self.of(name) if labels.items() <= sample.labels.items())

    def of(self, name: str) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.every if sample.name == name)

    def names(self) -> frozenset[str]:
        return frozenset(sample.name for sample in self.every)


def parse(text: str) -> Samples:
    """Raises ValueError for a line that is none."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return Samples(every=tuple(map(_sample, lines)))


def _sample(line: str) -> Sample:
    found = _SAMPLE.match(line)
    if found is None:
        raise ValueError(f"metrics: got {line!r}, expected a sample")
    return Sample(name=found["name"], labels=dict(_LABEL.findall(found["labels"] or "")), value=float(found["value"]))
