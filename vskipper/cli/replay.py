"""`vskipper replay`: run one failing case again."""

from __future__ import annotations

import os
import tempfile
from typing import Annotated

import typer

from vskipper.cli.values import filled, policy_name
from vskipper.suite import HYPOTHESIS_FOLDER, interpret_kernels, put_on_path


def replay(
    blob: Annotated[str, typer.Argument(metavar="BLOB", callback=filled, help="The word that a failure printed.")],
    policy: Annotated[
        str | None,
        typer.Option(metavar="POLICY", callback=policy_name, help="Another policy than the one that failed."),
    ] = None,
) -> int:
    """Run one failing case again. Exit code 0 when it passes now, 1 when it still fails."""
    put_on_path()
    from conformance.replay_word import unpack
    from conformance.runtime_names import device_of

    interpret_kernels(device_of(unpack(blob)["spec"]["runtime"]))
    from conformance.replay import replay as run_again

    with tempfile.TemporaryDirectory(prefix="vskipper-") as folder:
        os.environ[HYPOTHESIS_FOLDER] = folder
        failure = run_again(blob, policy=policy)
    if failure is None:
        print("vskipper PASS")
        return 0
    print("\n".join(part for part in (failure.line, failure.tape, failure.plan) if part))
    return 1
