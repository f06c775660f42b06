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
from torch import Tensor

from conformance.runtime_names import CUDA, ENGINE, RUNTIMES, SERVER, device_of
from properties.property import Subject
from properties.runtime import Model, Runtime
from reference.config import ModelConfig
from vskipper.checkpoint.open import Checkpoint, open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.models import default_delta, default_routed_layers, resolve
from vskipper.policy import GateMode, SkipPolicy
from vskipper.registry.lookup import load_policy

FIXTURE_POLICY = "flexidepth"
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSpec:
    """runtime: one of RUNTIMES. model: a name or a folder. delta: router and projector file, or None for the model's
    own or default one. settings: the policy's, as JSON values. dtype: of weights and activations, a name in DTYPES.
    attention_backend: of an engine that has several; None for the device's own."""

    runtime: str
    model: str
    policy: str = FIXTURE_POLICY
    delta: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    attention_backend: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "runtime": self.runtime,
            "model": self.model,
            "policy": self.policy,
            "delta": self.delta,
            "settings": dict(self.settings),
            "dtype": self.dtype,
            "attention_backend": self.attention_backend,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> SubjectSpec:
        return cls(**raw)


def build_subject(spec: SubjectSpec) -> Subject:
    """Raises InputError for whatever is wrong with the model, the delta, the policy or its settings."""
    runtime = open_runtime(spec.runtime, spec.attention_backend, spec.dtype)
    model, _ = open_model(spec.model, spec.delta, dtype_of(spec.dtype))
    make_policy, given = _policy_maker(
        spec.model, spec.delta, spec.policy, json.dumps(dict(spec.settings), sort_keys=True)
    )
    make_policy(model.dtype, runtime.capabilities.device)
    return Subject(
        runtime=runtime,
        model=model,
        make_policy=make_policy,
        policy_name=spec.policy,
        seen=Counter(),
        given=given,
    )


@cache
def _policy_maker(
    name: str, delta: str | None, policy: str, settings: str
) -> tuple[Callable[..., SkipPolicy], Mapping[str, Tensor]]:
    """One maker for equal names: what is remembered of a policy, its oracle above all, serves every subject like it.
    With it, the checkpoint's tensors that it gives the policy."""
    model, checkpoint = open_model(name, delta)

    @cache
    def make_policy(dtype: torch.dtype, device: str = "cpu") -> SkipPolicy:
        context = policy_context(checkpoint, dtype=dtype, device=device, routed_layers=model.routed_layers)
        return load_policy(policy, context, json.loads(settings))

    return make_policy, checkpoint.router_tensors


@lru_cache(maxsize=8)
def open_model(name: str, delta: str | None, dtype: torch.dtype = torch.float32) -> tuple[Model, Checkpoint]:
    """The model under test, its tensors in `dtype`, with router and projector tensors from `delta` or its own."""
    directory = resolve(name)
    file = Path(delta) if delta else default_delta(name)
    checkpoint = open_checkpoint(directory, file)
    config = ModelConfig.from_hf(json.loads((directory / "config.json").read_text(encoding="utf-8")))
    routed = checkpoint.routed_layers or default_routed_layers(name, checkpoint.spec)
    model = Model(
        name=name,
        config=config,
        tensors={key: x.to(dtype) for key, x in (*checkpoint.tensors.items(), *checkpoint.router_tensors.items())},
        dtype=dtype,
        weighted=checkpoint.gate_mode == GateMode.WEIGHTED,
        routed_layers=routed,
        directory=directory,
    )
    return model, checkpoint


def dtype_of(name: str) -> torch.dtype:
    """Raises InputError for a name that is not in DTYPES."""
    if name not in DTYPES:
        raise InputError("dtype", where="--dtype", got=name, expected=", ".join(DTYPES))
    return DTYPES[name]


@cache
def open_runtime(name: str, attention_backend: str | None = None, dtype: str = "float32") -> Runtime:
    """The runtime under test of that name, for a model in `dtype`; imported here, since each brings its own world."""
    if attention_backend is not None and name not in (ENGINE, CUDA):
        expected = "none, which only sglang takes"
        raise InputError("attention backend", where=f"runtime {name}", got=attention_backend, expected=expected)
    if name == "reference":
        from conformance.runtimes.reference import ReferenceRuntime

        return ReferenceRuntime()
    if name in ("torch", "triton"):
        from conformance.runtimes.torch_runtime.runtime import TorchRuntime

        return TorchRuntime(name="torch" if name == "torch" else "triton")
    if name in (ENGINE, CUDA):
        from conformance.runtimes.sglang.runtime import SGLangRuntime
        from conformance.runtimes.sglang.seat import Seat, check_backend

        device = device_of(name)
        seat = Seat(device=device, attention_backend=check_backend(device, attention_backend, dtype), dtype=dtype)
        return SGLangRuntime(name=name, seat=seat)
    if name == SERVER:
        from conformance.runtimes.sglang.server.runtime import ServerRuntime

        return ServerRuntime()
    raise InputError("unknown runtime", where="--runtime", got=name, expected=", ".join(RUNTIMES))
