"""How a server is started: by `vskipper serve`, by SGLang's own launcher with or without the plugin's configuration, or
as SGLang alone, for comparison."""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from conformance.runtimes.sglang.ports import HOST
from vskipper.errors import InputError
from vskipper.sglang.config import VARIABLE, EngineConfig
from vskipper.sglang.cpu import stand_in_environment
from vskipper.sglang.launch.arguments import ServerArguments
from vskipper.sglang.launch.command import FILTER, ROOT, server_command, server_environment
from vskipper.sglang.plugin import MODEL_PACKAGE

Way = Literal["serve", "launch", "alone"]
# no plugin's name
NO_PLUGIN: Final = "none"
# what this process may have set for an engine of its own
OWN: Final = (VARIABLE, MODEL_PACKAGE, FILTER, "SGLANG_USE_CPU_ENGINE", "TRITON_INTERPRET")
CPU: Final = ("--device", "cpu", "--dtype", "float32")
# modules of SGLang's models that those under test need
MODELS: Final = {"llama", "qwen2", "qwen3", "registry", "transformers", "utils"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """model: a name or a folder. arguments: SGLang's. device: those of them that say where it runs, and in which dtype.
    way: serve is `vskipper serve`; launch is SGLang's launcher with the plugin installed, configured by the
    environment, or off where config is None; alone is SGLang's launcher without the plugin, on a CPU. path: folders in
    which the server finds a policy. variables: of its environment, beside this process's. lean: SGLang imports no
    model but those under test, which saves a third of a start. plugins: what SGLang alone is started with all the
    same. Raises InputError for a way without its configuration."""

    model: str
    arguments: tuple[str, ...]
    config: EngineConfig | None
    device: tuple[str, ...] = CPU
    way: Way = "serve"
    path: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    lean: bool = True
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.config is None and self.way == "serve") or (self.config is not None and self.way == "alone"):
            expected = "a configuration by `vskipper serve`, none for SGLang alone"
            raise InputError("configuration", where=f"way {self.way}", got=self.config, expected=expected)

    def command(self, port: int) -> list[str]:
        """Of the server at this port of the loopback."""
        arguments = [*self.arguments, *self.device, "--host", HOST, "--port", str(port)]
        if self.config is not None and self.way == "serve":
            return [sys.executable, "-m", "vskipper", "serve", self.model, *_options(self.config), *arguments]
        return server_command(self.model, arguments)

    def environment(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The server's whole environment."""
        clean = {name: value for name, value in environment.items() if name not in OWN} | dict(self.variables)
        path = [*self.path, *clean.get("PYTHONPATH", "").split(os.pathsep)]
        clean["PYTHONPATH"] = os.pathsep.join(entry for entry in path if entry)
        if self.lean:
            clean["SGLANG_DISABLED_MODEL_ARCHS"] = ",".join(_other_models())
        if self.way == "alone":
            page_size = ServerArguments.read(self.arguments).page_size
            stand_ins = stand_in_environment(page_size=page_size, environment=clean)
            return clean | stand_ins | {FILTER: ",".join(self.plugins) or NO_PLUGIN}
        if self.way == "launch":
            return server_environment(self.config, (*self.arguments, *self.device), clean)
        return clean | {"PYTHONPATH": os.pathsep.join([clean["PYTHONPATH"], *_checkout()])}


def _options(config: EngineConfig) -> list[str]:
    """The configuration as it is typed."""
    options = ["--policy", config.policy, "--mode", config.mode, "--seed", str(config.seed)]
    for name, value in config.settings.items():
        options += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    if config.delta is not None:
        options += ["--delta", config.delta]
    if config.routed_layers is not None:
        options += ["--routed-layers", ",".join(map(str, config.routed_layers))]
    return options


def _other_models() -> list[str]:
    """Found without importing SGLang."""
    spec = find_spec("sglang")
    folders = spec.submodule_search_locations if spec is not None else None
    files = (file for folder in folders or () for file in Path(folder, "srt", "models").glob("*.py"))
    return sorted({file.stem for file in files} - MODELS)


def _checkout() -> list[str]:
    """The folder of a vSkipper that is run where it lies; one that is installed is found without."""
    return [] if ROOT in map(Path, site.getsitepackages()) else [str(ROOT)]
