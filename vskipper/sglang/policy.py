"""The configured policy on the engine's model: opened from the checkpoint's configuration and the router's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vskipper.checkpoint.open import Checkpoint, open_router, policy_context
from vskipper.locate import source_digest
from vskipper.models import default_delta, default_routed_layers
from vskipper.policy import SkipPolicy
from vskipper.registry.lookup import load_policy
from vskipper.sglang.config import EngineConfig
from vskipper.sglang.namespace import digest
from vskipper.validate.checked import CheckedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPolicy:
    """policy: checked where that costs no wait for the device. routes: the digest of everything that decides what
    routed rows write."""

    policy: SkipPolicy
    routed_layers: tuple[int, ...]
    routes: str


def open_policy(
    config: EngineConfig,
    model_path: str,
    model_config: Mapping[str, Any],
    *,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
) -> ServedPolicy:
    """model_config: what the model's config.json holds. Raises InputError for whatever does not fit the model."""
    checkpoint = _checkpoint(config, Path(model_path), model_config)
    routed = config.routed_layers or checkpoint.routed_layers
    routed = routed or default_routed_layers(Path(model_path).name, checkpoint.spec)
    context = policy_context(checkpoint, dtype=dtype, device=device, routed_layers=routed)
    identity = {
        "policy": config.policy,
        "settings": dict(config.settings),
        "routed_layers": routed,
        "gate_mode": checkpoint.gate_mode.value,
        "model": model_path,
        "dtype": str(dtype),
    }
    policy = load_policy(config.policy, context, config.settings)
    identity["source"] = source_digest(policy)
    return ServedPolicy(
        policy=CheckedPolicy(policy, config.policy, values=torch.device(device).type == "cpu"),
        routed_layers=routed,
        routes=digest(identity, checkpoint.router_tensors),
    )


def _checkpoint(config: EngineConfig, directory: Path, model_config: Mapping[str, Any]) -> Checkpoint:
    # without weights the engine makes its own (load format dummy), or fetched them elsewhere: then there is no router
    holds_weights = any(directory.glob("*.safetensors")) if directory.is_dir() else False
    beside = default_delta(directory) if config.delta is None and directory.is_dir() else None
    delta = config.delta if beside is None else beside
    return open_router(model_config, directory / "config.json", directory if holds_weights else None, delta)
