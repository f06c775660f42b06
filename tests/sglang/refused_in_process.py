"""Parse many command lines in one process that has loaded the plugin as the engine does.

`python refused_in_process.py`: reads a JSON list of command lines, in which NAME=VALUE sets a variable; writes a JSON
object: `outcomes`, for each the exit code and what was printed, or null where this SGLang has no such option or
variable; `misspelt`, the arguments of the table of refusals that are fields of this SGLang's but cannot be typed so.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import sys
from collections.abc import Sequence
from unittest.mock import patch

from vskipper.sglang.cpu import prepare_process


def outcome(line: Sequence[str], options: set[str]) -> list[object] | None:
    from sglang.srt.environ import envs
    from sglang.srt.server_args import prepare_server_args

    variables = dict(word.split("=") for word in line if word.startswith("SGLANG_"))
    words = [word for word in line if not word.startswith("SGLANG_")]
    if not all(word in options for word in words if word.startswith("--")) or not all(
        hasattr(envs, name) for name in variables
    ):
        return None
    told = io.StringIO()
    code: object = 0
    with contextlib.redirect_stderr(told), patch.dict(os.environ, variables):
        try:
            resolve = getattr(prepare_server_args(words), "resolve_once", lambda: None)
            resolve()
        except SystemExit as ended:
            code = ended.code
    return [code, told.getvalue()]


def main() -> None:
    prepare_process()
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import ServerArgs

    from vskipper.sglang.checks.table import REFUSALS

    load_plugins()
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    options = {option for action in parser._actions for option in action.option_strings}
    fields = set(inspect.signature(ServerArgs).parameters)
    misspelt = [row.argument for row in REFUSALS if row.attribute in fields and row.argument not in options]
    outcomes = [outcome(line, options) for line in json.load(sys.stdin)]
    sys.stdout.write(json.dumps({"outcomes": outcomes, "misspelt": misspelt}))


if __name__ == "__main__":
    main()
