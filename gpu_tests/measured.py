"""Where a measuring script writes, and on what it can measure."""

from __future__ import annotations

import sys
from pathlib import Path

from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu


def output_path() -> Path:
    """The script's one argument. Ends the process with one line and exit code 2 where there is none, or no GPU."""
    try:
        if len(sys.argv) != 2:
            raise InputError("arguments", where=sys.argv[0], got=len(sys.argv) - 1, expected="one, the file to write")
        check_gpu(sys.argv[0])
    except InputError as error:
        print(f"vskipper: {error}", file=sys.stderr)
        raise SystemExit(2) from error
    return Path(sys.argv[1])
