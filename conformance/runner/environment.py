"""The facts of a run that a certificate states: versions, machine, identities of policy and model."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from pathlib import Path

import torch

from conformance.certificate.record import EngineIdentity, Machine, ModelIdentity, PolicyIdentity
from conformance.request import CertifyRequest
from conformance.runtime_names import ENGINES, device_of
from properties.property import Subject
from properties.runtime import Model
from vskipper.kernels.gpu import has_gpu
from vskipper.locate import source_digest

DISTRIBUTIONS = ("torch", "triton", "numpy", "hypothesis", "pytest", "sglang")


def versions() -> dict[str, str | None]:
    """Python's, and each distribution's; None where it is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def engine_identity(request: CertifyRequest) -> EngineIdentity | None:
    """SGLang where the runtime runs it."""
    version = versions()["sglang"]
    if version is None or request.runtime not in ENGINES:
        return None
    return EngineIdentity(
        name="SGLang",
        version=version,
        device=device_of(request.runtime),
        attention_backend=request.attention_backend,
    )


def machine() -> Machine:
    gpu = torch.cuda.get_device_name(0) if has_gpu() else None
    driver = Path("/proc/driver/nvidia/version")
    text = driver.read_text(encoding="utf-8").splitlines()[0] if gpu and driver.is_file() else None
    return Machine(platform=platform.platform(), driver=text, gpu=gpu)


def policy_identity(request: CertifyRequest, subject: Subject) -> PolicyIdentity:
    """source_hash: of the file that defines the policy's class."""
    digest = source_digest(subject.make_policy(subject.model.dtype))
    return PolicyIdentity(spec=request.policy, settings=dict(request.settings), source_hash=digest)


def model_identity(model: Model) -> ModelIdentity:
    """digest: over names, shapes, dtypes and bytes of all tensors, and the configuration."""
    digest = hashlib.sha256(repr(model.config).encode())
    for name, tensor in sorted(model.tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return ModelIdentity(name=model.name, digest=digest.hexdigest(), routed_layers=model.routed_layers)
