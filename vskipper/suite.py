"""Where the conformance suite lies: beside this package in a checkout, in `vskipper/_suite` in an installed wheel.

Its folders have names too general for site-packages, so they are put on the path only while the suite runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from vskipper.errors import InputError

PACKAGES: Final = ("conformance", "properties", "reference")
# read by Triton when a kernel is decorated
INTERPRET: Final = "TRITON_INTERPRET"
# else Hypothesis makes a folder of its own where the user stands
HYPOTHESIS_FOLDER: Final = "HYPOTHESIS_STORAGE_DIRECTORY"


def suite_root() -> Path:
    """The folder that holds the suite's packages; raises InputError when this installation lacks them."""
    package = Path(__file__).resolve().parent
    for root in (package / "_suite", package.parent):
        if all((root / name / "__init__.py").is_file() for name in PACKAGES):
            return root
    raise InputError(
        "the conformance suite is not installed",
        where=package,
        got="no folder with " + ", ".join(PACKAGES),
        expected="a vskipper wheel or a checkout",
    )


def put_on_path() -> Path:
    """Make `import conformance` work in this process, and a module of the current folder importable; returns the
    suite's folder."""
    root = suite_root()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return root


def suite_environment(work_dir: Path) -> dict[str, str]:
    """Environment of a process that runs the suite: the suite first on its path, then the user's folder; of pytest,
    nothing but what the suite itself asks for; what is written on the way goes to work_dir."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = [str(suite_root()), os.getcwd(), *inherited.get("PYTHONPATH", "").split(os.pathsep)]
    # safe path: else `python -m` would put the user's folder before the suite's own packages
    return {
        # many small operators in several processes: threads of each would only fight over the cores
        "OMP_NUM_THREADS": "1",
        **inherited,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(entry for entry in path if entry)),
        "PYTHONSAFEPATH": "1",
        HYPOTHESIS_FOLDER: str(work_dir / "hypothesis"),
        "TMPDIR": str(work_dir),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def interpret_kernels(device: str) -> None:
    """Have this process and its children run kernels in Triton's interpreter, where they are to run on a CPU.

    To be called before anything that defines a kernel is imported.
    """
    if device == "cpu":
        os.environ.setdefault(INTERPRET, "1")
