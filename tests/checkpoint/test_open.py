"""A good checkpoint opens, in whichever form it comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from reference.config import ModelConfig
from tests.checkpoint.folders import edit_config, edit_tensors
from vskipper.checkpoint import ModelSpec, open_checkpoint, policy_context
from vskipper.checkpoint.config import model_spec
from vskipper.models import seeded
from vskipper.policy import GateMode


def test_base_alone_has_no_router(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    assert (checkpoint.routed_layers, checkpoint.router_tensors) == ((), {})
    assert checkpoint.gate_mode == GateMode.WEIGHTED
    assert checkpoint.tensors.keys() == load_file(folder / "model.safetensors").keys()


def test_base_and_delta(folder: Path) -> None:
    checkpoint = open_checkpoint(folder, folder / seeded.DELTA)
    assert checkpoint.routed_layers == (2, 3, 4)
    assert checkpoint.router_tensors["model.layers.3.router.router_enc.weight"].shape == (4, 64)
    assert checkpoint.router_tensors["model.layers.3.router_proj.up_proj.weight"].shape == (64, 8)


@pytest.mark.parametrize("model_type", ["ddllama", "llama"])
def test_whole_directory_with_its_router(folder: Path, model_type: str) -> None:
    delta = load_file(folder / seeded.DELTA)
    edit_tensors(folder / "model.safetensors", lambda tensors: tensors.update(delta))
    edit_config(
        folder, model_type=model_type, architectures=None, routing_layers=[2, 3, 4], router_gate_mode="ste_hard"
    )
    checkpoint = open_checkpoint(folder)
    assert checkpoint.routed_layers == (2, 3, 4)
    assert checkpoint.gate_mode == GateMode.HARD
    assert not checkpoint.tensors.keys() & delta.keys()
    for name, tensor in delta.items():
        assert torch.equal(checkpoint.router_tensors[name], tensor)


def test_sharded(folder: Path) -> None:
    whole = load_file(folder / "model.safetensors")
    names = sorted(whole)
    files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: whole[name].clone() for name in names if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (folder / "model.safetensors").unlink()
    checkpoint = open_checkpoint(folder)
    assert all(torch.equal(checkpoint.tensors[name], whole[name]) for name in names)


def test_pt_delta_with_its_gate_mode_beside_it(folder: Path, tmp_path: Path) -> None:
    beside = tmp_path / "delta"
    beside.mkdir()
    tensors = load_file(folder / seeded.DELTA)
    torch.save(tensors, beside / "router.pt")
    (beside / "config.json").write_text('{"router_gate_mode": "ste_hard"}')
    checkpoint = open_checkpoint(folder, beside / "router.pt")
    assert checkpoint.gate_mode == GateMode.HARD
    assert all(torch.equal(checkpoint.router_tensors[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    ("in_delta", "in_base", "expected"),
    [
        ("released", None, GateMode.WEIGHTED),
        ("ste_hard", None, GateMode.HARD),
        (None, "ste_hard", GateMode.HARD),
        (None, None, GateMode.WEIGHTED),
        ("ste_hard", "ste_hard", GateMode.HARD),
    ],
)
def test_gate_mode(folder: Path, tmp_path: Path, in_delta: str | None, in_base: str | None, expected: GateMode) -> None:
    delta = tmp_path / "delta.safetensors"
    save_file(load_file(folder / seeded.DELTA), delta, {"router_gate_mode": in_delta} if in_delta else None)
    edit_config(folder, router_gate_mode=in_base)
    assert open_checkpoint(folder, delta).gate_mode == expected


def test_bottlenecks_are_inferred_layer_by_layer(folder: Path) -> None:
    def widen(tensors: dict[str, torch.Tensor]) -> None:
        for part, axis in (("router_enc", 0), ("router_norm", 0), ("router_dec", 1)):
            name = f"model.layers.3.router.{part}.weight"
            tensors[name] = torch.cat((tensors[name], tensors[name]), dim=axis)

    edit_tensors(folder / seeded.DELTA, widen)
    tensors = open_checkpoint(folder, folder / seeded.DELTA).router_tensors
    assert [tensors[f"model.layers.{i}.router.router_enc.weight"].shape[0] for i in (2, 3, 4)] == [4, 8, 4]


def test_a_tied_head_that_equals_the_embedding_is_dropped(folder: Path) -> None:
    edit_config(folder, tie_word_embeddings=True)

    def tie(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    edit_tensors(folder / "model.safetensors", tie)
    assert "lm_head.weight" not in open_checkpoint(folder).tensors


def test_context_is_the_checkpoints(folder: Path) -> None:
    checkpoint = open_checkpoint(folder, folder / seeded.DELTA)
    context = policy_context(checkpoint, dtype=torch.bfloat16)
    assert (context.routed_layers, context.vocab_size, context.dtype) == ((2, 3, 4), 128, torch.bfloat16)
    assert policy_context(checkpoint, dtype=torch.float32, routed_layers=(1, 5)).routed_layers == (1, 5)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        {
            "rope_theta": None,
            "rope_parameters": {"rope_theta": 5e5, **LLAMA3, "original_max_position_embeddings": 8192},
        },
        {"head_dim": None, "num_key_value_heads": None},
        {"head_dim": None, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
    ],
)
def test_reads_a_config_as_the_reference_does(folder: Path, extra: dict[str, object]) -> None:
    config = json.loads((edit_config(folder, **extra) / "config.json").read_text())
    ours, theirs = model_spec(config, folder), ModelConfig.from_hf(config)
    assert {name: getattr(ours, name) for name in ModelSpec.__slots__} == {
        name: getattr(theirs, name) for name in ModelConfig.__slots__
    }
