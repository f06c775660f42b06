"""Builds what is certified from its names: a runtime, a model, a policy. Names travel; tensors are built where used."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch

from properties.property import Subject
from properties.runtime import Model, Runtime
from reference.config import ModelConfig
from vskipper.checkpoint.open import Checkpoint, open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.models import default_delta, default_routed_layers, resolve
from vskipper.policy import SkipPolicy
from vskipper.registry import load_policy

FIXTURE_POLICY = "flexidepth"
RUNTIMES = ("reference", "torch", "triton", "sglang", "server")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSpec:
    """runtime: one of RUNTIMES. model: a name or a folder. delta: router and projector file, or None for the model's
    own or default one. settings: the policy's, as JSON values."""

    runtime: str
    model: str
    policy: str = FIXTURE_POLICY
    delta: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "runtime": self.runtime,
            "model": self.model,
            "policy": self.policy,
            "delta": self.delta,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SubjectSpec:
        return cls(**raw)


def build_subject(spec: SubjectSpec) -> Subject:
    """Raises InputError for whatever is wrong with the model, the delta, the policy or its settings."""
    model, _ = open_model(spec.model, spec.delta)
    make_policy = _policy_maker(spec.model, spec.delta, spec.policy, json.dumps(dict(spec.settings), sort_keys=True))
    make_policy(model.dtype)
    return Subject(
        runtime=open_runtime(spec.runtime),
        model=model,
        make_policy=make_policy,
        policy_name=spec.policy,
        seen=Counter(),
    )


@cache
def _policy_maker(name: str, delta: str | None, policy: str, settings: str) -> Callable[[torch.dtype], SkipPolicy]:
    """One maker for equal names: what is remembered of a policy, its oracle above all, serves every subject like it."""
    model, checkpoint = open_model(name, delta)

    @cache
    def make_policy(dtype: torch.dtype) -> SkipPolicy:
        context = policy_context(checkpoint, dtype=dtype, routed_layers=model.routed_layers)
        return load_policy(policy, context, json.loads(settings))

    return make_policy


@lru_cache(maxsize=8)
def open_model(name: str, delta: str | None) -> tuple[Model, Checkpoint]:
    """The model under test, with router and projector tensors from `delta` or the model's default one."""
    directory = resolve(name)
    file = Path(delta) if delta else default_delta(name)
    checkpoint = open_checkpoint(directory, file)
    config = ModelConfig.from_hf(json.loads((directory / "config.json").read_text(encoding="utf-8")))
    routed = checkpoint.routed_layers or default_routed_layers(name, checkpoint.spec)
    model = Model(
        name=name,
        config=config,
        tensors={**checkpoint.tensors, **checkpoint.router_tensors},
        routed_layers=routed,
        directory=directory,
    )
    return model, checkpoint


@cache
def open_runtime(name: str) -> Runtime:
    """The runtime under test of that name; imported here, since each brings its own world."""
    if name == "reference":
        from conformance.runtimes.reference import ReferenceRuntime

        return ReferenceRuntime()
    if name in ("torch", "triton"):
        from conformance.runtimes.torch_runtime.runtime import TorchRuntime

        return TorchRuntime(name="torch" if name == "torch" else "triton")
    if name == "sglang":
        from conformance.runtimes.sglang.runtime import SGLangRuntime

        return SGLangRuntime()
    if name == "server":
        from conformance.runtimes.sglang.server.runtime import ServerRuntime

        return ServerRuntime()
    raise InputError("unknown runtime", where="--runtime", got=name, expected=", ".join(RUNTIMES))
