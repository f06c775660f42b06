"""The tiny models load in transformers, equal the compact forward pass, and route as their delta says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM, Qwen3ForCausalLM

from vskipper.checkpoint import open_checkpoint
from vskipper.errors import InputError
from vskipper.models import tiny
from vskipper.models.forward import Decoder, lay_out
from vskipper.policy import GateMode

CLASSES = {"tiny-llama": LlamaForCausalLM, "tiny-qwen3": Qwen3ForCausalLM}
MODES = {"tiny-llama": GateMode.WEIGHTED, "tiny-qwen3": GateMode.HARD}


@pytest.fixture(scope="module", params=tiny.TINY_MODELS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[tiny.TinyModel, Path]:
    return request.param, tiny.build(request.param, tmp_path_factory.mktemp("tiny") / request.param)


def test_transformers_computes_the_same(built: tuple[tiny.TinyModel, Path]) -> None:
    kind, folder = built
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert isinstance(model, CLASSES[kind])
    checkpoint = open_checkpoint(folder)
    decoder, ids = Decoder(checkpoint.spec, checkpoint.tensors), list(range(3, 40))
    prompts = lay_out([ids, ids[5:9]])
    with torch.inference_mode():
        h = decoder.embed(prompts)
        for layer in range(checkpoint.spec.num_hidden_layers):
            h = h + decoder.attention(layer, decoder.input_norm(layer, h), prompts)
            h = h + decoder.mlp(layer, decoder.post_norm(layer, h))
        ours = decoder.logits(h)
        for part, prompt in ((ours[: len(ids)], ids), (ours[len(ids) :], ids[5:9])):
            torch.testing.assert_close(part, model(torch.tensor([prompt])).logits[0], rtol=1e-4, atol=1e-4)


def test_shape_and_delta(built: tuple[tiny.TinyModel, Path]) -> None:
    kind, folder = built
    checkpoint = open_checkpoint(folder, folder / tiny.DELTA)
    spec = checkpoint.spec
    assert (spec.hidden_size, spec.intermediate_size, spec.num_hidden_layers, spec.vocab_size) == (64, 128, 6, 128)
    assert (spec.num_attention_heads, spec.num_key_value_heads, spec.head_dim) == (4, 2, 16)
    assert spec.tie_word_embeddings is (kind == "tiny-qwen3")
    assert checkpoint.routed_layers == (2, 3, 4)
    assert checkpoint.gate_mode == MODES[kind]
    assert checkpoint.router_tensors["model.layers.2.router.router_enc.weight"].shape == (4, 64)
    assert checkpoint.router_tensors["model.layers.2.router_proj.gate_proj.weight"].shape == (8, 64)
    assert {tensor.dtype for tensor in checkpoint.tensors.values()} == {torch.float32}
    matrices = torch.cat([t.flatten() for name, t in checkpoint.tensors.items() if t.ndim == 2])
    assert abs(matrices.std().item() - 0.2) < 0.002


def test_the_skip_share_is_recorded(built: tuple[tiny.TinyModel, Path]) -> None:
    with safe_open(built[1] / tiny.DELTA, framework="pt") as file:
        metadata = file.metadata()
    assert 0.3 <= float(metadata["held_out_skip_share"]) <= 0.6
    assert metadata["router_gate_mode"] == ("released" if built[0] == "tiny-llama" else "ste_hard")


def test_the_same_seed_gives_the_same_model(built: tuple[tiny.TinyModel, Path], tmp_path: Path) -> None:
    again = tiny.build(built[0], tmp_path / "again")
    for name in ("model.safetensors", tiny.DELTA):
        one, other = load_file(built[1] / name), load_file(again / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_two_models_differ(tmp_path: Path) -> None:
    llama, qwen3 = (load_file(tiny.build(kind, tmp_path / kind) / "model.safetensors") for kind in tiny.TINY_MODELS)
    name = "model.embed_tokens.weight"
    assert not torch.equal(llama[name], qwen3[name])


def test_a_folder_with_other_contents_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        tiny.build("tiny-llama", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert json.dumps((tmp_path / "thesis.txt").read_text()) == '"mine"'
