"""One level for every policy on every attention backend, each dtype and model with each: the tables of docs/gpu.md.
`python -m gpu_tests.certify_matrix OUT --level graph`; run again, it goes on with what OUT lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from vskipper.errors import InputError
from vskipper.kernels.gpu import check_gpu

# seconds in which a certification may end by itself once it is asked to
GRACE: Final = 30
_running: set[subprocess.Popen[bytes]] = set()
SETTINGS: Final = {
    "random-skip": ("r=0.5", "d=0.5"),
    "flexidepth": (),
    "static-depth": ("ratio=0.5",),
    "random-sublayer": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One certification."""

    policy: str
    backend: str
    dtype: str
    model: str

    @property
    def name(self) -> str:
        return f"{self.policy}-{self.backend}-{self.dtype}-{self.model}"

    def command(self, level: str, workers: int, folder: Path) -> list[str]:
        settings = [word for setting in SETTINGS[self.policy] for word in ("--set", setting)]
        place = ["--model", self.model, "--attention-backend", self.backend, "--dtype", self.dtype]
        run = ["--device", "cuda", "--level", level, "--workers", str(workers), "--out", str(folder)]
        return [sys.executable, "-m", "vskipper", "certify", self.policy, *settings, *place, *run]


def _cells(backend: str, *places: tuple[str, str]) -> list[Cell]:
    """One for each policy, in their order."""
    pairs = zip(SETTINGS, places, strict=True)
    return [Cell(policy=policy, backend=backend, dtype=dtype, model=model) for policy, (dtype, model) in pairs]


LLAMA, QWEN = "small-llama", "small-qwen3"
BF16, F16 = "bfloat16", "float16"
CELLS: Final = (
    *_cells("flashinfer", (F16, QWEN), (BF16, LLAMA), (BF16, QWEN), (F16, LLAMA)),
    *_cells("triton", (BF16, LLAMA), (F16, QWEN), (F16, LLAMA), (BF16, QWEN)),
    *_cells("fa3", (BF16, QWEN), (F16, LLAMA), (F16, QWEN), (BF16, LLAMA)),
)


def certify(cell: Cell, out: Path, level: str, workers: int, timeout: float) -> bool:
    """Whether the level is granted there, within so many seconds; a certificate that is there already stands."""
    folder = out / f"{level}-{cell.name}"
    log = out / f"{folder.name}.log"
    ended = folder.exists() or run(cell.command(level, workers, folder), log, timeout)
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"granted": False, "seconds": 0}
    why = f"not granted, see {log.name}" if ended else f"not granted, killed after {timeout:.0f} s, see {log.name}"
    print(f"{folder.name}: {'granted' if manifest['granted'] else why}, {manifest['seconds']:.0f} s", flush=True)
    return bool(manifest["granted"])


def run(command: Sequence[str], log: Path, timeout: float) -> bool:
    """Whether the command ended in time, and by itself; else its whole group is killed."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    _running.add(process)
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        return False
    finally:
        _end(process)
        _running.discard(process)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Asked first: a certification then ends the group of its suite, and logs what was under way."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A folder for the certificates and their logs.")],
    level: Annotated[Literal["core", "graph", "lifecycle"], typer.Option()] = "graph",
    at_once: Annotated[int, typer.Option(min=1, help="Certifications that run at the same time.")] = 4,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes of each.")] = 1,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which each is killed.")] = 1800,
) -> None:
    """Exit code 0 if the level is granted everywhere, 1 if not, 2 without a GPU."""
    try:
        check_gpu("certify_matrix")
    except InputError as error:
        print(f"vskipper: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(at_once) as pool:
        try:
            granted = list(pool.map(partial(certify, out=out, level=level, workers=workers, timeout=timeout), CELLS))
        except KeyboardInterrupt:
            # it does not reach their groups
            for process in tuple(_running):
                process.terminate()
            raise
    print(f"{level}: granted in {sum(granted)} of {len(granted)}")
    raise typer.Exit(0 if all(granted) else 1)


if __name__ == "__main__":
    typer.run(main)
