"""What an engine serves with, exchanged on a living scheduler: the plugin's own start is run again on its model."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from unittest import mock

from safetensors import safe_open
from safetensors.torch import save_file

from conformance.runtimes.sglang.process import capture_anew
from properties.lifecycle.engine import Served
from properties.runtime import Model
from vskipper.models import default_delta
from vskipper.sglang import process
from vskipper.sglang.config import VARIABLE, EngineConfig
from vskipper.sglang.seams.wrap import unwrap_all


def serve(runner: Any, model: Model, served: Served) -> None:
    """runner: the engine's ModelRunner; a model of the engine's own class serves as it is, whatever is asked. Decode
    graphs hold the policy that they were captured with, and are captured anew."""
    module = runner.model
    unwrap_all()
    if not hasattr(module, "vskipper"):
        return
    with mock.patch.dict(os.environ):
        os.environ.pop(VARIABLE, None)
        if served.mode != "off":
            os.environ.update(config_of(model, served).environment())
        module.vskipper = process.start(module)
    if module.vskipper is not None and module.vskipper.graphs is not None:
        capture_anew(runner)


def config_of(model: Model, served: Served) -> EngineConfig:
    """The plugin's configuration for it."""
    return EngineConfig(
        policy=served.policy,
        settings=served.settings,
        delta=_delta(model, served.weights),
        routed_layers=model.routed_layers,
        mode="dense" if served.mode == "off" else served.mode,
        seed=served.seed,
    )


def _delta(model: Model, number: int) -> str | None:
    own = None if model.directory is None else default_delta(model.directory)
    return None if own is None else str(own if number == 0 else other_weights(own, number))


@cache
def other_weights(delta: Path, number: int) -> Path:
    """A router file like `delta` in everything but its values."""
    with safe_open(delta, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        metadata = file.metadata()
    path = Path(mkdtemp(dir=_folder().name)) / delta.name
    save_file({name: tensor * (1 + number / 4) for name, tensor in tensors.items()}, path, metadata)
    return path


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="vskipper-weights-")
