"""The CPU engine's environment: for a child process as variables, for the running one as what they would have done."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vskipper.errors import InputError
from vskipper.sglang.cpu import finder
from vskipper.sglang.cpu.allocator import pages_need_interpreter

CPU_ENGINE: Final = "SGLANG_USE_CPU_ENGINE"
# holds the sitecustomize.py that every Python process with it on PYTHONPATH runs first
SITE: Final = Path(__file__).resolve().parent / "site"
# tokenizer, scheduler and detokenizer: their threads would otherwise wait in turns for the same cores
PROCESSES: Final = 3


def stand_in_environment(*, page_size: int = 1, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a process and its children need to run SGLang's CPU engine; what the user set stays, but for
    PYTHONPATH, which is extended, and the choice of the engine itself."""
    path = [str(SITE), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    wanted = {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // PROCESSES))}
    if page_size > 1 and pages_need_interpreter():
        wanted["TRITON_INTERPRET"] = "1"
    return {
        **{name: value for name, value in wanted.items() if not environment.get(name)},
        CPU_ENGINE: "1",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(entry for entry in path if entry)),
    }


def prepare_process() -> None:
    """Make `import sglang` in this process, and in the processes it starts, use the CPU engine and find the stand-ins.

    Raises InputError where SGLang's runtime is imported already and chose otherwise: it asks once.
    """
    if "sglang.srt" in sys.modules and os.environ.get(CPU_ENGINE) != "1":
        expected = f"a call before the import, or {CPU_ENGINE}=1"
        raise InputError("CPU engine", where="sglang.srt", got="imported already", expected=expected)
    os.environ.update(stand_in_environment())
    finder.install()
