"""`vskipper verify`: re-check a certificate from its bytes alone; needs neither torch nor a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vskipper.cli.values import filled_path
from vskipper.suite import put_on_path


def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", parser=str, callback=filled_path, help="A folder that vskipper certify wrote."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> int:
    """Re-check a certificate. Exit code 0 when it holds, 1 when it is refused, 2 when it is none or cannot be read.

    Nothing in a certificate is signed: that it holds shows that its files agree with each other and with what the level
    demands, not that the run took place.
    """
    put_on_path()
    from conformance.certificate.verify import verify as judge

    verdict = judge(folder)
    if as_json:
        print(json.dumps(verdict.to_json(), indent=2))
    elif verdict.ok:
        leaning = f", with {verdict.waivers} waived failures" if verdict.waivers else ""
        print(
            f"{folder}: level {verdict.level} holds for {verdict.policy} on {verdict.model}, "
            f"run on {' and '.join(verdict.runtimes)}{leaning}"
        )
    else:
        for refusal in verdict.refusals:
            print(f"{folder}: {refusal}")
        print(f"{folder}: refused for {len(verdict.refusals)} reason{'s' * (len(verdict.refusals) > 1)}")
    return 0 if verdict.ok else 1
