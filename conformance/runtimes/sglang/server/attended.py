"""Servers with the suite's agent in them, by what they serve: started when first asked for, used again, and stopped
with this process."""

from __future__ import annotations

import atexit
import sys
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import torch

from conformance.runtimes.sglang.server.command import Launch
from conformance.runtimes.sglang.server.link import Link
from conformance.runtimes.sglang.server.process import Server, running
from properties.runtime import Model
from vskipper.errors import InputError
from vskipper.sglang.config import EngineConfig

# two gigabytes each
KEPT: Final = 4
ROOT: Final = Path(__file__).resolve().parents[4]
ENTRY_POINT: Final = Path(__file__).resolve().parent / "agent" / "entry_point"
AGENT: Final = "vskipper-suite"
FIXED: Final = (
    "--skip-tokenizer-init",
    *("--attention-backend", "torch_native"),
    *("--mem-fraction-static", "0.5"),
    *("--log-level", "warning"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """arguments: SGLang's. stock: without vSkipper."""

    directory: Path
    dtype: torch.dtype
    routed_layers: tuple[int, ...]
    arguments: tuple[str, ...]
    stock: bool = False

    @classmethod
    def of(cls, model: Model, arguments: tuple[str, ...], *, stock: bool = False) -> Asked:
        """Raises InputError for a model without a folder, or in another dtype than a server on a CPU computes in."""
        where = f"model {model.name}"
        if model.directory is None:
            raise InputError("model folder", where=where, got="none", expected="a Hugging Face folder")
        if model.dtype != torch.float32:
            raise InputError("dtype", where=where, got=model.dtype, expected="float32, of a server on a CPU")
        return cls(
            directory=model.directory,
            dtype=model.dtype,
            routed_layers=model.routed_layers,
            arguments=arguments,
            stock=stock,
        )

    def launch(self, folder: Path, link: Link) -> Launch:
        """What SGLang's launcher is started with; the policy is a stand-in, each session brings its own."""
        config = EngineConfig(policy="static-depth", settings={"ratio": 0.0}, routed_layers=self.routed_layers)
        # a process that is killed leaves its files
        variables = {**link.environment, "TMPDIR": str(folder)}
        return Launch(
            model=str(self.directory),
            arguments=(*FIXED, *self.arguments),
            config=None if self.stock else config,
            way="alone" if self.stock else "launch",
            path=(str(ENTRY_POINT), *_importable()),
            variables=tuple(variables.items()),
            plugins=(AGENT,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """folder: its files, gone with it."""

    server: Server
    link: Link
    folder: Path


def attended(asked: Asked) -> Attended:
    """A server that runs; raises NotStarted."""
    if asked not in _running:
        _running[asked] = _start(asked)
        while len(_running) > KEPT:
            _stop(next(iter(_running)))
    _running.move_to_end(asked)
    return _running[asked][1]


def forget(asked: Asked) -> None:
    """Stop the server; the next one that is asked for is fresh."""
    if asked in _running:
        _stop(asked)


_running: OrderedDict[Asked, tuple[ExitStack, Attended]] = OrderedDict()


def _start(asked: Asked) -> tuple[ExitStack, Attended]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="vs-")))
        link = Link(folder)
        server = stack.enter_context(running(asked.launch(folder, link), folder / "log"))
        # before the server is asked to end
        stack.callback(link.close)
        link.call("check_stock", asked.stock)
        kept = stack.pop_all()
    return kept, Attended(server=server, link=link, folder=folder)


def _stop(asked: Asked) -> None:
    stack, _ = _running.pop(asked)
    stack.close()


def running_now() -> tuple[Asked, ...]:
    """Those that have not been stopped."""
    return tuple(_running)


@atexit.register
def stop_all() -> None:
    """Stop every one of them."""
    while _running:
        _stop(next(iter(_running)))


def _importable() -> list[str]:
    """The suite's folder, and whatever folder a policy may have been imported from."""
    installed = (sys.prefix, sys.base_prefix)
    folders = [str(Path(entry).resolve()) for entry in sys.path if not entry.startswith(installed)]
    return [str(ROOT), *(folder for folder in folders if Path(folder).is_dir())]
