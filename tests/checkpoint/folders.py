"""Makes broken copies of a good model folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor


def copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))


def edit_config(folder: Path, **values: Any) -> Path:
    """Set keys of config.json; a value of None removes the key."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


def edit_tensors(path: Path, edit: Callable[[dict[str, Tensor]], None], **metadata: str) -> Path:
    """Rewrite a safetensors file after `edit` changed its tensors in place; metadata is kept and added to."""
    with safe_open(path, framework="pt") as file:
        kept = dict(file.metadata() or {})
    # clones: the loaded ones map the file that is about to be replaced
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    edit(tensors)
    save_file(tensors, path, kept | metadata)
    return path
