"""Golden answers: the word of every seam of one SGLang version, in a file of its own.

`python -m vskipper.sglang.probe.golden FOLDER TREE...` probes trees or wheels and writes FOLDER/VERSION.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from vskipper.sglang.probe.report import SCHEMA, ProbeReport, probe_tree


def answers(report: ProbeReport) -> dict[str, Any]:
    """What is golden of a report: no line numbers, no texts."""
    return {
        "schema": SCHEMA,
        "version": report.version,
        "supported": report.supported,
        "graphs_supported": not report.unusable(graphs=True),
        "seams": {seam.name: seam.word for seam in report.seams},
    }


def read_all(folder: Path) -> list[dict[str, Any]]:
    """The golden answers of a folder, the oldest version first."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return sorted(found, key=lambda golden: Version(golden["version"]))


def main(arguments: Sequence[str]) -> None:
    folder, *trees = map(Path, arguments)
    for tree in trees:
        golden = answers(probe_tree(tree))
        (folder / f"{golden['version']}.json").write_text(json.dumps(golden, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
