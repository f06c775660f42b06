"""The policy on the model, tried where the server is started: SGLang's own start takes half a minute to come to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from vskipper.checkpoint.config import read_json
from vskipper.models import KNOWN, resolve
from vskipper.sglang.config import EngineConfig, read_object
from vskipper.sglang.policy import open_policy


def check_policy(config: EngineConfig, model: str, overrides: str | None) -> None:
    """overrides: of the model's config.json, as SGLang takes them. Raises InputError for a policy, a setting, a delta
    or layers that do not fit a model on this machine; any other model is looked at by the server alone."""
    if model not in KNOWN and not Path(model).is_dir():
        return
    # as `python -m`, by which the server runs
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    folder = resolve(model)
    changed = read_object(overrides, "--json-model-override-args", "the model's overrides") if overrides else {}
    model_config = read_json(folder / "config.json") | changed
    open_policy(config, str(folder), model_config, dtype=torch.float32)
