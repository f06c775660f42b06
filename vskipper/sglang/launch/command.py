"""What starts SGLang's server with the plugin in it: the command, the environment, and what is refused before that."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch

from vskipper.errors import InputError
from vskipper.files import check_folder
from vskipper.models import KNOWN, resolve
from vskipper.sglang.config import VARIABLE, EngineConfig, read_object, read_text
from vskipper.sglang.cpu import stand_in_environment
from vskipper.sglang.cpu.kernels import attention_present
from vskipper.sglang.launch.arguments import ServerArguments
from vskipper.sglang.plugin import MODEL_PACKAGE, MODELS

GROUP: Final = "sglang.srt.plugins"
NAME: Final = "vskipper"
FILTER: Final = "SGLANG_PLUGINS"
# no path: neither may begin with a dot
HUB_NAME: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*")
# the entry point of a vSkipper that is run where it lies, without having been installed
ENTRY_POINT: Final = Path(__file__).resolve().parents[1] / "entry_point"
ROOT: Final = Path(__file__).resolve().parents[3]


def server_command(model: str, arguments: Sequence[str]) -> list[str]:
    """The server's command line. A model that this project names is resolved, and built where it has not been yet; what
    SGLang would choose and this machine cannot run is chosen here, before the user's own arguments, which win."""
    given = ServerArguments.read(arguments)
    chosen = ["--host", given.host, "--port", str(given.port)]
    path = str(resolve(model)) if model in KNOWN else model
    if model in KNOWN and not (Path(path) / "tokenizer.json").exists():
        chosen.append("--skip-tokenizer-init")
    if given.on_cpu and given.attention_backend is None and not attention_present():
        chosen += ["--attention-backend", "torch_native"]
    return [sys.executable, "-m", "sglang.launch_server", "--model-path", path, *chosen, *arguments]


def check_model(model: str) -> None:
    """Raises InputError for what is neither a folder that holds a model nor a name that this project or a model hub may
    have; the hub's, and addresses, are SGLang's to look up."""
    folder = Path(model)
    if model in KNOWN or (not folder.exists() and (HUB_NAME.fullmatch(model) or "://" in model)):
        return
    config = folder / "config.json"
    if not config.exists():
        other = "a file, no folder" if folder.exists() else "no such folder"
        got = "a folder without config.json" if folder.is_dir() else other
        expected = f"a model's folder, a hub's owner/name or {', '.join(KNOWN)}"
        raise InputError("model", where=model, got=got, expected=expected)
    check_folder(folder)
    read_object(read_text(config, "model"), str(config), "model")


def check_device(given: ServerArguments) -> None:
    """Raises InputError where SGLang would look for an accelerator and find none, long after its start."""
    if not (given.on_cpu or torch.accelerator.is_available()):
        without = ", which is built without CUDA" if torch.version.cuda is None else ""
        got = f"no accelerator that this torch can use{without}"
        raise InputError("no device", where="vskipper serve", got=got, expected="--device cpu, or a GPU")


def server_environment(
    config: EngineConfig | None, arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The server's whole environment: `environment`, the plugin's configuration (None: the plugin is off), what loads
    the plugin, and on a CPU the stand-ins. Raises InputError where something in it keeps the plugin out."""
    check_environment(environment)
    given = ServerArguments.read(arguments)
    made = {name: value for name, value in environment.items() if name != VARIABLE}
    if config is not None:
        made |= config.environment() | {MODEL_PACKAGE: MODELS}
    if given.on_cpu:
        made |= stand_in_environment(page_size=given.page_size, environment=made)
    path = made.get("PYTHONPATH", "").split(os.pathsep) + _search_path()
    return made | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(entry for entry in path if entry))}


def check_environment(environment: Mapping[str, str]) -> None:
    """Raises InputError where there is no SGLang, or where the environment names plugins or models without vSkipper."""
    if find_spec("sglang") is None:
        expected = "SGLang 0.5.11 or later in this environment"
        raise InputError("no SGLang", where=sys.executable, got="no module named sglang", expected=expected)
    plugins = [name.strip() for name in environment.get(FILTER, "").split(",") if name.strip()]
    if plugins and NAME not in plugins:
        raise InputError("the plugin is left out", where=FILTER, got=",".join(plugins), expected=f"{NAME} among them")
    models = environment.get(MODEL_PACKAGE) or MODELS
    if models != MODELS:
        raise InputError("another model package", where=MODEL_PACKAGE, got=models, expected=MODELS)


def _search_path() -> list[str]:
    """Folders that the server's processes need to find vSkipper and its entry point, where nothing is installed."""
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    registered = any(point.name == NAME for point in entry_points(group=GROUP))
    # a folder of installed packages must not come before the standard library
    return [str(ROOT)] * (ROOT not in installed) + [str(ENTRY_POINT)] * (not registered)
