"""SGLang's own Scheduler for a model and a shape, on one rank of this process; several may live in it in turns."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from conformance.runtimes.sglang.arguments import server_arguments
from conformance.runtimes.sglang.garbage import tidied_before
from conformance.runtimes.sglang.process import prepare, publish, quiet_engine, remember
from conformance.runtimes.sglang.seat import Seat
from properties.lifecycle.engine import Shape
from properties.runtime import Model
from vskipper.errors import InputError
from vskipper.models import default_delta
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.seams.wrap import unwrap_all

# ranks of a world of one, in the versions that take them as arguments
RANKS = {
    "gpu_id": 0,
    "tp_rank": 0,
    "moe_ep_rank": 0,
    "pp_rank": 0,
    "attn_cp_rank": 0,
    "moe_dp_rank": 0,
    "dp_rank": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """scheduler: ready to run its event loop. model: the module that it runs. publish: makes its process-wide state
    the current one. sockets: all that it opened to processes which are not there."""

    scheduler: Any
    model: Any
    publish: Callable[[], None]
    sockets: tuple[Any, ...]

    def close(self) -> None:
        for socket in self.sockets:
            socket.close(linger=0)


def build(model: Model, shape: Shape, seat: Seat, *, stock: bool) -> Built:
    """stock: with the engine's own model class in place of vSkipper's. Raises InputError for a model without a folder
    and for a model class that is not the one asked for."""
    if model.directory is None:
        raise InputError("model folder", where=f"model {model.name}", got="none", expected="a Hugging Face folder")
    prepare()
    unwrap_all()
    # the policy is a stand-in: what is served is chosen again for every case
    config = EngineConfig(policy="static-depth", settings={"ratio": 0.0}, routed_layers=model.routed_layers)
    with (
        quiet_engine(),
        tidied_before(),
        mock.patch.dict(os.environ, config.environment()),
        mock.patch.dict(_classes(), _stock() if stock else {}),
        _opened_sockets() as sockets,
    ):
        folder = _plain(model.directory) if stock else model.directory
        scheduler, arguments = _build(model, shape, seat, folder)
    runner = scheduler.tp_worker.model_runner
    if hasattr(runner.model, "vskipper") == stock:
        got, expected = type(runner.model).__module__, "the engine's own" if stock else "one of vSkipper's"
        raise InputError("model class", where=f"model {model.name}", got=got, expected=expected)
    return Built(scheduler=scheduler, model=runner.model, publish=remember(arguments), sockets=tuple(sockets))


@contextmanager
def _opened_sockets() -> Iterator[list[Any]]:
    """Every ZeroMQ socket that is opened meanwhile."""
    context: Any = import_module("zmq").Context
    original, opened = context.socket, []

    def socket(self: Any, *arguments: Any, **keywords: Any) -> Any:
        opened.append(original(self, *arguments, **keywords))
        return opened[-1]

    with mock.patch.object(context, "socket", socket):
        yield opened


def _build(model: Model, shape: Shape, seat: Seat, folder: Path) -> tuple[Any, Any]:
    arguments = _arguments(model, shape, seat, folder)
    ports = import_module("sglang.srt.server_args").PortArgs.init_new(arguments)
    state = import_module("sglang.srt.distributed.parallel_state")
    if state.model_parallel_is_initialized():
        # the scheduler makes its own; groups of one rank carry nothing, so that engines built earlier miss none
        state.destroy_model_parallel()
    publish(arguments)
    scheduler_class = import_module("sglang.srt.managers.scheduler").Scheduler
    known = inspect.signature(scheduler_class.__init__).parameters
    wanted = {"server_args": arguments, "port_args": ports, **RANKS}
    return scheduler_class(**{name: value for name, value in wanted.items() if name in known}), arguments


def _arguments(model: Model, shape: Shape, seat: Seat, folder: Path) -> Any:
    return server_arguments(
        replace(seat, page_size=shape.page_size),
        model_path=str(folder),
        dtype=str(model.dtype).removeprefix("torch."),
        max_total_tokens=shape.tokens,
        chunked_prefill_size=shape.chunk,
        max_running_requests=shape.running,
        enable_mixed_chunk=shape.mixed,
        disable_overlap_schedule=not shape.overlap,
        # admit as if requests would end at once, so that decoding runs out of slots
        schedule_conservativeness=0.01,
    )


@cache
def _plain(folder: Path) -> Path:
    """The model without a router file beside its weights, which the engine's own loader takes for weights."""
    delta = default_delta(folder)
    plain = TemporaryDirectory(prefix="vskipper-plain-")
    _folders.append(plain)
    for path in folder.iterdir():
        if path != delta:
            (Path(plain.name) / path.name).symlink_to(path.resolve())
    return Path(plain.name)


# removed with the process
_folders: list[TemporaryDirectory[str]] = []


def _classes() -> dict[str, Any]:
    """The engine's registry of model classes, by architecture."""
    registry: dict[str, Any] = import_module("sglang.srt.models.registry").ModelRegistry.models
    return registry


def _stock() -> dict[str, Any]:
    """The engine's own classes of the architectures that vSkipper serves."""
    return {cls.__name__: cls.__mro__[1] for cls in _classes().values() if cls.__module__.startswith("vskipper.")}
