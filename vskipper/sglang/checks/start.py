"""What is checked in the process that starts the engine, before there is a scheduler and weights are read (IN-1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vskipper.files import check_folder
from vskipper.sglang.checks import gpu
from vskipper.sglang.checks.refusals import refuse_arguments, refuse_unsupported
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.policy import open_policy
from vskipper.sglang.seams import server_args


def install_checks(config: EngineConfig) -> None:
    """Have every resolved set of server arguments checked against what vSkipper serves and what the policy needs."""
    server_args.install(lambda resolved: check(config, resolved), before=check_given)


def check_given(given: Any) -> None:
    """given: the arguments before the engine has looked at the model. Raises InputError for one that is not served, and
    for a model whose files the engine would never have read."""
    refuse_arguments(given)
    check_folder(Path(given.model_path))


def check(config: EngineConfig, resolved: Any) -> None:
    """Raises InputError for an argument, a GPU, a model, a delta or a policy that cannot be served together."""
    model_config = read_model_config(resolved)
    refuse_unsupported(resolved, model_config)
    if str(resolved.device).startswith("cuda") and config.mode != "dense":
        gpu.check_engine(resolved, model_config)
    open_policy(config, resolved.model_path, model_config, dtype=torch.float32)


def read_model_config(resolved: Any) -> dict[str, Any]:
    """The model's config.json with the user's overrides, as the engine reads it."""
    import json

    from transformers import AutoConfig

    found = AutoConfig.from_pretrained(resolved.model_path, trust_remote_code=False)
    overrides = json.loads(resolved.json_model_override_args or "{}")
    found.update(overrides)
    values: dict[str, Any] = found.to_dict()
    return values
