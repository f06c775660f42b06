"""What SGLang keeps once a process: how it is imported, its process groups, and the arguments of the engine that runs.

Several engines share this process, and one of them is current; what differs between versions is told by what is there.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from conformance.runtimes.sglang.garbage import leave_out_imported, tidied_before
from vskipper.errors import InputError
from vskipper.sglang.cpu import prepare_process
from vskipper.sglang.plugin import use_models

# what a launcher would say of the only rank
RANK = {"world_rank": 0, "gpu_id": 0}
# what holds the decode graphs, by the name that a version has for it
GRAPH_RUNNERS = ("decode_cuda_graph_runner", "graph_runner")


# where engines of this process run: SGLang asks once, when it is imported
_device = ["cpu"]


def use_device(device: str = "cpu") -> None:
    """Have engines of this process run on the device; imports nothing. Raises InputError where there is no SGLang."""
    if find_spec("sglang") is None:
        raise InputError("SGLang", where="runtime sglang", got="not installed", expected="a package sglang to import")
    if device == "cuda":
        # its own check of the slots that a pass reads and writes
        os.environ.setdefault("SGLANG_ENABLE_ASYNC_ASSERT", "1")
    _device[0] = device


@contextmanager
def quiet_engine() -> Iterator[None]:
    """While it is imported, built or captured, SGLang warns of what is not this project's to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def prepare() -> None:
    """Have SGLang import on the process's device and take vSkipper's model classes."""
    with quiet_engine():
        if _device[0] == "cpu":
            prepare_process()
        use_models()
        leave_out_imported()


def publish(arguments: Any) -> None:
    """Make these server arguments the process's own."""
    context = _module("sglang.srt.runtime_context")
    if hasattr(context, "get_flags") and getattr(context.get_flags(), "frozen", False):
        # a scheduler has locked what it was built under, as if it were the only one
        context.reset_context()
    if not hasattr(context, "publish"):
        import_module("sglang.srt.server_args").set_global_server_args_for_scheduler(arguments)
    elif hasattr(context, "SpawnRanks"):
        context.publish(arguments, role="scheduler", ranks=context.SpawnRanks(**RANK))
    else:
        context.publish(arguments, role="scheduler")


def remember(arguments: Any) -> Callable[[], None]:
    """A function that makes the present state current again: what an engine published, and what it then changed."""
    context = _module("sglang.srt.runtime_context")
    if hasattr(context, "snapshot_context"):
        return partial(context.restore_context, context.snapshot_context())
    holders = [getattr(context, name)() for name in ("get_context", "get_parallel") if hasattr(context, name)]
    states = [_state(holder) for holder in holders]

    def restore() -> None:
        publish(arguments)
        # an engine adds to what it was published with
        for holder, state in zip(holders, states, strict=True):
            for name, value in state.items():
                object.__setattr__(holder, name, value)

    return restore


def _state(holder: Any) -> dict[str, Any]:
    """Its attributes, wherever it keeps them."""
    names = vars(holder) if hasattr(holder, "__dict__") else type(holder).__slots__
    return {name: getattr(holder, name) for name in names}


def capture_anew(runner: Any) -> None:
    """The decode graphs of an engine that has some. Warming up writes to the slots that stand in the buffers: in those
    of a new graph runner the dummy one does."""
    forget_shared()
    for name in GRAPH_RUNNERS:
        if hasattr(runner, name):
            setattr(runner, name, None)
    with quiet_engine(), tidied_before():
        (getattr(runner, "init_decode_cuda_graph", None) or runner.init_device_graphs)()


def forget_shared() -> None:
    """Have the next engine make input buffers of its own: one that takes those of an engine before it finds its slots
    in them, which its pool may not have. And where one memory pool serves the decode graphs of all engines, another
    one: it cannot be captured into once its graphs are gone."""
    pool = getattr(_module("sglang.srt.model_executor.input_buffers"), "_forward_input_buffer_pool", None)
    if pool is not None:
        pool.clear()
    runner = sys.modules.get("sglang.srt.model_executor.cuda_graph_runner")
    if runner is not None:
        runner.set_global_graph_memory_pool(None)


def prepare_groups(arguments: Any, model_config: Any, port: int, device: str) -> None:
    """Process groups as the next runner expects them: there already, or absent because it builds them itself."""
    state = import_module("sglang.srt.distributed.parallel_state")
    bootstrap = _module("sglang.srt.distributed.bootstrap")
    built: bool = state.model_parallel_is_initialized()
    if not hasattr(bootstrap, "init_parallel_runtime"):
        # groups of one rank carry nothing, so that engines built earlier do not miss theirs
        if built:
            state.destroy_model_parallel()
        return
    if not built:
        bootstrap.init_parallel_runtime(server_args=arguments, device=device, dist_port=port)
    bootstrap.init_layer_runtime(model_config=model_config)


def _module(name: str) -> Any:
    """The module, or None where this version has none of that name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None
