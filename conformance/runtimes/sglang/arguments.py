"""Server arguments of an engine that lives in this process, by what its version knows."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from conformance.runtimes.sglang.ports import free_port
from conformance.runtimes.sglang.process import forget_shared
from conformance.runtimes.sglang.seat import MEMORY, Seat


def server_arguments(seat: Seat, **wanted: Any) -> Any:
    """The engine's ServerArgs, resolved, for the next engine of this process; of the seat's own arguments, those that
    the version has no field for are left out."""
    server_args = import_module("sglang.srt.server_args").ServerArgs
    forget_shared()
    known = inspect.signature(server_args).parameters
    arguments = server_args(
        **{name: value for name, value in seat.arguments().items() if name in known},
        mem_fraction_static=MEMORY,
        skip_tokenizer_init=True,
        # the engine's own choice may be another worker's too
        nccl_port=free_port(),
        log_level="error",
        **wanted,
    )
    if hasattr(arguments, "resolve_once"):
        arguments.resolve_once()
    return arguments
