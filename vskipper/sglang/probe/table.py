"""The seams by SGLang version, as a table in Markdown.

`python -m vskipper.sglang.probe.table FOLDER` prints two from a folder of golden answers: what is always needed, and
what is needed for graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from vskipper.sglang.probe.areas import AREAS
from vskipper.sglang.probe.golden import read_all
from vskipper.sglang.probe.seam import UNKNOWN, Need, SeamSpec


def render(goldens: Sequence[dict[str, Any]], need: Need = Need.ALWAYS) -> str:
    """A row a seam of that need: its words with the versions that have them; those not served are in italics."""
    lines = ["| seam | there vSkipper | shapes, by SGLang version |", "|---|---|---|"]
    for area, specs in AREAS.items():
        rows = [spec for spec in specs if spec.need == need]
        lines += [f"| **{area}** | | |"] * bool(rows)
        lines += [f"| {spec.name} | {spec.use} | {'; '.join(_bands(spec, goldens))} |" for spec in rows]
    return "\n".join(lines)


def _bands(spec: SeamSpec, goldens: Sequence[dict[str, Any]]) -> Iterator[str]:
    """`word` of the first to the last version of a run that has it."""
    served = {known.word for known in spec.shapes if known.served}
    for word, run in groupby(goldens, key=lambda golden: golden["seams"].get(spec.name, UNKNOWN)):
        versions = [golden["version"] for golden in run]
        told = f"`{word}`" if word in served else f"*{word}*"
        if len(versions) == len(goldens):
            yield told
        elif len(versions) == 1:
            yield f"{told} {versions[0]}"
        else:
            yield f"{told} {versions[0]} to {versions[-1]}"


if __name__ == "__main__":
    known = read_all(Path(sys.argv[1]))
    print("\n\n".join(render(known, need) for need in (Need.ALWAYS, Need.GRAPHS)))
