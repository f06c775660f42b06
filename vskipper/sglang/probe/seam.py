"""A seam: a place of SGLang that vSkipper patches or relies on, and the shapes it is known to have, each by a word."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from vskipper.sglang.probe.conditions import Condition, Sight
from vskipper.sglang.probe.tree import PACKAGE, Tree

UNKNOWN: Final = "unknown"


class Need(StrEnum):
    """When vSkipper relies on a seam: wherever it serves, where it also captures graphs, or not yet."""

    ALWAYS = "always"
    GRAPHS = "graphs"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """word: the name of a shape seen before. conditions: what holds of a tree that has it. served: whether vSkipper can
    work with it."""

    word: str
    conditions: tuple[Condition, ...]
    served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeamSpec:
    """use: what vSkipper does there. shapes: the newest first; a tree has the first one whose conditions all hold."""

    name: str
    use: str
    need: Need
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seam:
    """What a probe found. word: of the shape, or `unknown`. where: file:line, from the folder that holds sglang on.
    detail: what stands there. expected: what an unknown shape lacks of the known one it is nearest to; for one that is
    not served, the words that are."""

    name: str
    area: str
    word: str
    need: Need
    served: bool
    use: str
    where: str
    detail: str
    expected: str

    @property
    def needed(self) -> bool:
        """Whether vSkipper cannot be put into a tree without it."""
        return self.need == Need.ALWAYS


def shape(word: str, *conditions: Condition, served: bool = True) -> Shape:
    return Shape(word=word, conditions=conditions, served=served)


def needed(name: str, use: str, *shapes: Shape) -> SeamSpec:
    return SeamSpec(name=name, use=use, need=Need.ALWAYS, shapes=shapes)


def needed_for_graphs(name: str, use: str, *shapes: Shape) -> SeamSpec:
    return SeamSpec(name=name, use=use, need=Need.GRAPHS, shapes=shapes)


def recorded(name: str, use: str, *shapes: Shape) -> SeamSpec:
    return SeamSpec(name=name, use=use, need=Need.RECORDED, shapes=shapes)


def probe(area: str, spec: SeamSpec, tree: Tree) -> Seam:
    """The seam of this tree."""
    for each in spec.shapes:
        sights = _sights_until_failure(each, tree)
        if all(sight.holds for sight in sights):
            words = dict.fromkeys(known.word for known in spec.shapes if known.served)
            expected = "" if each.served else " or ".join(words)
            return _seam(area, spec, word=each.word, served=each.served, sight=sights[0], expected=expected)
    word, sight = _nearest_failure(spec, tree)
    return _seam(area, spec, word=UNKNOWN, served=False, sight=sight, expected=f"{sight.wanted} ({word})")


def _sights_until_failure(known: Shape, tree: Tree) -> list[Sight]:
    sights: list[Sight] = []
    for condition in known.conditions:
        sights.append(condition(tree))
        if not sights[-1].holds:
            break
    return sights


def _nearest_failure(spec: SeamSpec, tree: Tree) -> tuple[str, Sight]:
    """Word and first failing condition of the shape of which least fails."""
    failures = []
    for each in spec.shapes:
        sights = [condition(tree) for condition in each.conditions]
        failures.append((each.word, [sight for sight in sights if not sight.holds]))
    word, failing = min(failures, key=lambda entry: len(entry[1]))
    return word, failing[0]


def _seam(area: str, spec: SeamSpec, *, word: str, served: bool, sight: Sight, expected: str) -> Seam:
    return Seam(
        name=spec.name,
        area=area,
        word=word,
        need=spec.need,
        served=served,
        use=spec.use,
        where=f"{PACKAGE}/{sight.place}",
        detail=sight.saw,
        expected=expected,
    )
