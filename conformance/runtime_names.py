"""Names of the runtimes under test."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from vskipper.errors import InputError

ENGINE: Final = "sglang"
# the runtime `sglang` with --device cuda
CUDA: Final = "sglang-cuda"
SERVER: Final = "server"
RUNTIMES: Final = ("reference", "torch", "triton", ENGINE, CUDA, SERVER)
# as a user names them, beside a device
ASKED_FOR: Final = tuple(name for name in RUNTIMES if name != CUDA)
# that run SGLang, in the suite's own processes or in a server's
ENGINES: Final = (ENGINE, CUDA, SERVER)
# SGLang's attention backend on a GPU where none is named
CUDA_BACKEND: Final = "triton"


def device_of(runtime: str) -> str:
    """Where the runtime under test runs, cpu or cuda."""
    return "cuda" if runtime == CUDA else "cpu"


def check_runtime(name: str, where: str, known: tuple[str, ...] = RUNTIMES) -> None:
    """Raises InputError for a name that is not known, and for an engine that is not installed; imports none."""
    if name not in known:
        raise InputError("unknown runtime", where=where, got=repr(name), expected=", ".join(known))
    if name in ENGINES and find_spec("sglang") is None:
        expected = f"SGLang {'0.5.13' if name == CUDA else '0.5.11'} or later in this environment"
        raise InputError("no SGLang", where=where, got="no module named sglang", expected=expected)
