"""The seeded models load in transformers, equal the compact forward pass, and route as their delta says."""

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
from vskipper.models import seeded
from vskipper.models.forward import Decoder, lay_out
from vskipper.policy import GateMode

CLASSES = {"llama": LlamaForCausalLM, "qwen3": Qwen3ForCausalLM}
MODES = {"llama": GateMode.WEIGHTED, "qwen3": GateMode.HARD}
# hidden, intermediate and vocabulary size, heads, KV heads and head dim, and the standard deviation of a weight
TINY = ((64, 128, 128, 4, 2, 16), 0.2)
SIZES = {
    "tiny-llama": TINY,
    "tiny-qwen3": TINY,
    "small-llama": ((256, 512, 512, 4, 2, 64), 0.1),
    "small-qwen3": ((256, 512, 512, 8, 2, 128), 0.1),
}


@pytest.fixture(scope="module", params=seeded.SEEDED_MODELS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[seeded.SeededModel, Path]:
    return request.param, seeded.build(request.param, tmp_path_factory.mktemp("tiny") / request.param)


def family(kind: str) -> str:
    return kind.partition("-")[2]


def test_transformers_computes_the_same(built: tuple[seeded.SeededModel, Path]) -> None:
    kind, folder = built
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    assert isinstance(model, CLASSES[family(kind)])
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
            expected = model(torch.tensor([prompt])).logits[0]
            # 18 epsilons of the largest logit were measured, from sums in another order; a wrong term gives thousands
            atol = 256 * torch.finfo(torch.float32).eps * float(expected.abs().max())
            torch.testing.assert_close(part, expected, rtol=0, atol=atol)


def test_shape_and_delta(built: tuple[seeded.SeededModel, Path]) -> None:
    kind, folder = built
    checkpoint = open_checkpoint(folder, folder / seeded.DELTA)
    spec = checkpoint.spec
    sizes, std = SIZES[kind]
    heads = (spec.num_attention_heads, spec.num_key_value_heads, spec.head_dim)
    assert (spec.hidden_size, spec.intermediate_size, spec.vocab_size, *heads) == sizes
    assert spec.num_hidden_layers == 6
    assert spec.tie_word_embeddings is (family(kind) == "qwen3")
    assert checkpoint.routed_layers == (2, 3, 4)
    assert checkpoint.gate_mode == MODES[family(kind)]
    assert checkpoint.router_tensors["model.layers.2.router.router_enc.weight"].shape == (sizes[0] // 16, sizes[0])
    assert checkpoint.router_tensors["model.layers.2.router_proj.gate_proj.weight"].shape == (sizes[1] // 16, sizes[0])
    assert {tensor.dtype for tensor in checkpoint.tensors.values()} == {torch.float32}
    matrices = torch.cat([t.flatten() for name, t in checkpoint.tensors.items() if t.ndim == 2])
    assert abs(matrices.std().item() - std) < 0.002


def test_the_skip_share_is_recorded(built: tuple[seeded.SeededModel, Path]) -> None:
    with safe_open(built[1] / seeded.DELTA, framework="pt") as file:
        metadata = file.metadata()
    assert 0.3 <= float(metadata["held_out_skip_share"]) <= 0.6
    assert metadata["router_gate_mode"] == ("released" if family(built[0]) == "llama" else "ste_hard")


def test_the_same_seed_gives_the_same_model(built: tuple[seeded.SeededModel, Path], tmp_path: Path) -> None:
    again = seeded.build(built[0], tmp_path / "again")
    for name in ("model.safetensors", seeded.DELTA):
        one, other = load_file(built[1] / name), load_file(again / name)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_two_models_differ(tmp_path: Path) -> None:
    llama, qwen3 = (load_file(seeded.build(kind, tmp_path / kind) / "model.safetensors") for kind in seeded.TINY_MODELS)
    name = "model.embed_tokens.weight"
    assert not torch.equal(llama[name], qwen3[name])


def test_a_folder_with_other_contents_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        seeded.build("tiny-llama", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert json.dumps((tmp_path / "thesis.txt").read_text()) == '"mine"'
