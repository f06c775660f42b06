"""What a tree's seams are, and whether vSkipper can be put into it: only where every seam it needs has a shape that it
knows and serves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from vskipper.errors import InputError
from vskipper.sglang.probe.areas import AREAS
from vskipper.sglang.probe.seam import UNKNOWN, Need, Seam, probe
from vskipper.sglang.probe.tree import open_tree

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """root: the folder that holds sglang, or the wheel. version: as the tree states it."""

    root: str
    version: str
    seams: tuple[Seam, ...]

    @property
    def unknown(self) -> tuple[Seam, ...]:
        """Needed seams of a shape never seen."""
        return tuple(seam for seam in self.seams if seam.needed and seam.word == UNKNOWN)

    def unusable(self, *, graphs: bool = False) -> tuple[Seam, ...]:
        """Needed seams, with `graphs` those of graphs too, of a shape that is unknown or known not to do."""
        asked = (Need.ALWAYS, Need.GRAPHS) if graphs else (Need.ALWAYS,)
        return tuple(seam for seam in self.seams if seam.need in asked and not seam.served)

    @property
    def supported(self) -> bool:
        return not self.unusable()

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "root": self.root,
            "version": self.version,
            "supported": self.supported,
            "graphs_supported": not self.unusable(graphs=True),
            "seams": [asdict(seam) | {"needed": seam.needed} for seam in self.seams],
        }


def probe_tree(root: Path, *, needed_only: bool = False) -> ProbeReport:
    """Probe the tree at `root`: the folder that holds sglang, sglang itself, or a wheel. needed_only: leave out what is
    only recorded. Raises InputError where there is no SGLang or it cannot be read."""
    tree = open_tree(root)
    seams = [
        probe(area, spec, tree)
        for area, specs in AREAS.items()
        for spec in specs
        if not (needed_only and spec.need == Need.RECORDED)
    ]
    return ProbeReport(root=tree.root, version=tree.version, seams=tuple(seams))


def require(report: ProbeReport, *, graphs: bool = False) -> None:
    """Raises InputError that names every needed seam vSkipper cannot use. graphs: whether graphs will be captured."""
    unusable = report.unusable(graphs=graphs)
    if unusable:
        names = ", ".join(seam.name for seam in unusable)
        raise InputError(
            f"SGLang {report.version} is not supported{' with graphs' * graphs}, for its {names}",
            where=f"{report.root}: {', '.join(dict.fromkeys(seam.where for seam in unusable))}",
            got="; ".join(f"{seam.name}: {seam_words(seam)}" for seam in unusable),
            expected="; ".join(f"{seam.name}: {seam.expected}" for seam in unusable),
        )


def seam_words(seam: Seam) -> str:
    """The seam's word, and what stands behind it where nobody knows that shape."""
    return f"{UNKNOWN} ({seam.detail})" if seam.word == UNKNOWN else seam.word
