"""Model folders and deltas that cannot be loaded, and settings that no policy takes (IN-1)."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from properties.core.refusal import Start
from vskipper.checkpoint.open import open_checkpoint, policy_context
from vskipper.models import resolve
from vskipper.models.seeded import DELTA, TINY_MODELS
from vskipper.registry.lookup import load_policy

WEIGHTS, CONFIG = "model.safetensors", "config.json"
GARBAGE = "garbage.pt"
Spoil = Callable[[Path, int], None]


def _edit(file: str, change: Callable[[dict[str, Tensor], str], None], metadata: dict[str, str] | None = None) -> Spoil:
    def spoil(folder: Path, seed: int) -> None:
        tensors = load_file(folder / file)
        name = sorted(tensors)[seed % len(tensors)]
        change(tensors, name)
        save_file(tensors, folder / file, metadata)

    return spoil


def _plant(value: float) -> Callable[[dict[str, Tensor], str], None]:
    def change(tensors: dict[str, Tensor], name: str) -> None:
        tensors[name].view(-1)[-1] = value

    return change


def _lose(tensors: dict[str, Tensor], name: str) -> None:
    del tensors[name]


def _add(tensors: dict[str, Tensor], name: str) -> None:
    tensors[f"{name}.surplus"] = tensors[name].clone()


def _reshape(tensors: dict[str, Tensor], name: str) -> None:
    tensors[name] = tensors[name][..., :-1].contiguous()


def _widen(tensors: dict[str, Tensor], name: str) -> None:
    """Every router tensor as of a model twice as wide."""
    (hidden,) = {tensor.shape[1] for each, tensor in tensors.items() if each.endswith("router_enc.weight")}
    for each, tensor in tensors.items():
        wide = [2 if size == hidden else 1 for size in tensor.shape]
        tensors[each] = tensor.repeat(*wide)


def _cut(file: str) -> Spoil:
    def spoil(folder: Path, seed: int) -> None:
        whole = (folder / file).read_bytes()
        # a text without its last newline is whole
        (folder / file).write_bytes(whole[: seed * 97 % len(whole.rstrip(b"\n"))])

    return spoil


def _remove(file: str) -> Spoil:
    return lambda folder, seed: (folder / file).unlink()


def _configure(**values: Any) -> Spoil:
    def spoil(folder: Path, seed: int) -> None:
        config = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps(config | values))

    return spoil


# JSON that no config means, each once read as something else or met by a crash
_ODD_VALUES: tuple[dict[str, Any], ...] = (
    {"architectures": [["x"]]},
    {"architectures": 5},
    {"model_type": []},
    {"layer_types": 5},
    {"layer_types": [1, "a"]},
    {"rope_parameters": "x"},
    {"rope_theta": 10**400},
    {"rope_theta": float("nan")},
    {"rms_norm_eps": float("inf")},
    {"num_hidden_layers": 10**8},
    {"tie_word_embeddings": "no"},
    {"routing_layers": "2"},
)


def _odd_value(folder: Path, seed: int) -> None:
    _configure(**_ODD_VALUES[seed % len(_ODD_VALUES)])(folder, seed)


def _nest(folder: Path, seed: int) -> None:
    (folder / CONFIG).write_text("[" * 200_000)


def _garbage(folder: Path, seed: int) -> None:
    (folder / GARBAGE).write_text(f"{seed} lines of text in place of a pickle")


def _contradict(folder: Path, seed: int) -> None:
    """The base says one gate mode, the delta the other."""
    modes = ("released", "ste_hard") if seed % 2 else ("ste_hard", "released")
    _configure(router_gate_mode=modes[0])(folder, seed)
    _edit(DELTA, lambda tensors, name: None, {"router_gate_mode": modes[1]})(folder, seed)


_SPOILT: dict[str, Spoil] = {
    "missing_config": _remove(CONFIG),
    "missing_weights": _remove(WEIGHTS),
    "missing_delta": _remove(DELTA),
    "truncated_config": _cut(CONFIG),
    "truncated_weights": _cut(WEIGHTS),
    "truncated_delta": _cut(DELTA),
    "nan_weights": _edit(WEIGHTS, _plant(float("nan"))),
    "infinite_weights": _edit(WEIGHTS, _plant(float("inf"))),
    "nan_delta": _edit(DELTA, _plant(float("nan"))),
    "missing_tensor": _edit(WEIGHTS, _lose),
    "surplus_tensor": _edit(WEIGHTS, _add),
    "misshaped_tensor": _edit(WEIGHTS, _reshape),
    "missing_router_tensor": _edit(DELTA, _lose),
    "misshaped_router_tensor": _edit(DELTA, _reshape),
    "delta_for_another_hidden_size": _edit(DELTA, _widen),
    "unknown_gate_mode": _configure(router_gate_mode="soft"),
    "unknown_gate_mode_of_delta": _edit(DELTA, lambda tensors, name: None, {"router_gate_mode": "soft"}),
    "gate_modes_differ": _contradict,
    "another_architecture": _configure(architectures=["GPT2LMHeadModel"], model_type="gpt2"),
    "config_of_odd_types": _odd_value,
    "config_nested_deep": _nest,
    "garbage_delta": _garbage,
}
_SETTINGS: dict[str, tuple[str, dict[str, object]]] = {
    "rate_above_one": ("random-skip", {"r": 1.5}),
    "rate_negative": ("random-skip", {"r": -0.1}),
    "rate_not_a_number": ("random-skip", {"r": float("nan")}),
    "depth_above_one": ("random-skip", {"d": 2.0}),
    "ratio_above_one": ("static-depth", {"ratio": 1.01}),
    "unknown_setting": ("random-skip", {"rate": 0.5}),
    "setting_of_another_type": ("random-skip", {"r": "half"}),
    "unknown_policy": ("random-skipp", {}),
    "policy_that_is_not_there": ("json:Policy", {}),
}


def _start(
    seed: int, spoil: Spoil | None = None, policy: str = "flexidepth", settings: Mapping[str, Any] | None = None
) -> None:
    """Open a copy of a tiny model, spoilt, and load a policy for it. The seed says which model, and what of it."""
    number, which = divmod(seed, len(TINY_MODELS))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        shutil.copytree(resolve(TINY_MODELS[which]), folder)
        if spoil is not None:
            spoil(folder, number)
        checkpoint = open_checkpoint(folder, folder / (GARBAGE if (folder / GARBAGE).exists() else DELTA))
        load_policy(policy, policy_context(checkpoint, dtype=torch.float32), settings or {})


FILES: dict[str, Start] = {kind: partial(_start, spoil=spoil) for kind, spoil in _SPOILT.items()}
SETTINGS: dict[str, Start] = {
    kind: partial(_start, policy=policy, settings=settings) for kind, (policy, settings) in _SETTINGS.items()
}
