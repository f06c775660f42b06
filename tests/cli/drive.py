"""The command line with the made-up must-pass lists and the fake runner in the real ones' places.

`python drive.py LISTS COMMAND ...`
"""

from __future__ import annotations

import sys
from pathlib import Path

from conformance import must_pass
from tests.conformance.sample import FAULTS, NEEDS
from vskipper.cli import suite_process
from vskipper.cli.main import run

if __name__ == "__main__":
    lists = Path(sys.argv[1])
    (lists / "core.txt").write_text(must_pass.render("properties", NEEDS))
    (lists / "core_faults.txt").write_text(must_pass.render("faults", FAULTS))
    vars(must_pass)["FOLDER"] = lists
    vars(suite_process)["RUNNER"] = "tests.cli.fake_runner"
    sys.exit(run(sys.argv[2:]))
