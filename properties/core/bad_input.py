"""IN-1: what cannot be served is refused at start, in one line that says what, where, got and expected."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from safetensors.torch import load_file, save_file
from torch import Tensor

from properties.codec import case_type
from properties.property import Property, Subject
from properties.violation import Violation
from reference.plan import Chunk, PoolLayout, StepPlan
from vskipper.checkpoint.open import open_checkpoint, policy_context
from vskipper.errors import InputError
from vskipper.registry import load_policy

WEIGHTS, DELTA, CONFIG = "model.safetensors", "flexidepth.safetensors", "config.json"
GARBAGE = "garbage.pt"
Spoil = Callable[[Path, int], None]


@case_type
@dataclass(frozen=True, slots=True, kw_only=True)
class BadInput:
    """kinds: one of FILES, one of SETTINGS and one of PLANS, each to be refused. seed: which tensor, byte or value is
    spoilt."""

    kinds: tuple[str, str, str]
    seed: int


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


FILES: dict[str, Spoil] = {
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
SETTINGS: dict[str, tuple[str, dict[str, object]]] = {
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
PLANS: dict[str, Callable[[int], tuple[PoolLayout, StepPlan]]] = {
    "page_size_not_a_power_of_two": lambda seed: (_pool(3 + 2 * (seed % 8)), _step(1)),
    "page_size_zero": lambda seed: (_pool(0), _step(1)),
    "zero_rows": lambda seed: (_pool(1), _step(0)),
}


COUNTERS = ("refused_files", "refused_settings", "refused_plans")


def _pool(page_size: int) -> PoolLayout:
    return PoolLayout(page_size=page_size, pages=4)


def _step(rows: int) -> StepPlan:
    chunk = Chunk(request="r0", tokens=(1,) * rows, start=0, pages=(1,), phase="prefill")
    return StepPlan(chunks=(chunk,) if rows else ())


def cases(subject: Subject) -> SearchStrategy[BadInput]:
    kinds = st.tuples(*(st.sampled_from(tuple(group)) for group in (FILES, SETTINGS, PLANS)))
    return st.builds(BadInput, kinds=kinds, seed=st.integers(0, 999))


def check(subject: Subject, case: BadInput) -> None:
    for kind, counter in zip(case.kinds, COUNTERS, strict=True):
        try:
            _use(subject, kind, case.seed)
        except InputError as error:
            _check_words(kind, error)
        except Exception as error:
            facts = {"kind": kind, "got": type(error).__name__, "text": str(error)[:80], "expected": "InputError"}
            raise Violation("IN-1", "crash_in_place_of_refusal", facts) from error
        else:
            raise Violation("IN-1", "bad_input_accepted", {"kind": kind, "seed": case.seed})
        subject.seen[counter] += 1


def _use(subject: Subject, kind: str, seed: int) -> None:
    """Do what a start does with it."""
    directory = subject.model.directory
    if directory is None:
        raise ValueError("this property needs a model folder")
    if kind in PLANS:
        layout, plan = PLANS[kind](seed)
        policy = subject.served_policy()
        subject.runtime.open(subject.model, policy, layout, "routed").step(plan)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        shutil.copytree(directory, folder)
        if kind in FILES:
            FILES[kind](folder, seed)
        checkpoint = open_checkpoint(folder, folder / (GARBAGE if (folder / GARBAGE).exists() else DELTA))
        policy, settings = SETTINGS.get(kind, ("flexidepth", {}))
        load_policy(policy, policy_context(checkpoint, dtype=torch.float32), settings)


def _check_words(kind: str, error: InputError) -> None:
    for part in (error.what, error.where, error.got, error.expected):
        if not part.strip():
            raise Violation("IN-1", "refusal_without_words", {"kind": kind, "error": error})
    if "\n" in str(error):
        raise Violation("IN-1", "refusal_of_many_lines", {"kind": kind, "error": error})


INPUT_REFUSED = Property(
    id="input.refused",
    clause="IN-1",
    title="bad input is refused at start, in one line",
    cases=cases,
    check=check,
    counters=COUNTERS,
    examples=120,
)
