"""What does not fit is refused in one line that names file or tensor, what was got and what was expected."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.checkpoint.folders import edit_config, edit_tensors
from vskipper.checkpoint import open_checkpoint
from vskipper.errors import InputError
from vskipper.models import seeded

Tensors = dict[str, Tensor]
ENC = "model.layers.2.router.router_enc.weight"
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def refusal(folder: Path, delta: Path | None = None) -> str:
    with pytest.raises(InputError) as caught:
        open_checkpoint(folder, delta)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "nowhere")


def test_a_file_for_a_folder(folder: Path) -> None:
    assert "got a file" in refusal(folder / "config.json")


@pytest.mark.parametrize(("name", "words"), [("config.json", "config.json"), ("model.safetensors", "neither file")])
def test_missing_file(folder: Path, name: str, words: str) -> None:
    (folder / name).unlink()
    assert words in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("keep", [0, 5, 0.5, 0.99])
def test_truncated_file(folder: Path, name: str, keep: float) -> None:
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep >= 1 else keep * len(content))])
    assert str(path) in refusal(folder)


def test_config_that_is_no_object(folder: Path) -> None:
    (folder / "config.json").write_text("[1]")
    assert "got list, expected an object" in refusal(folder)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "mistral", "architectures": ["MistralForCausalLM"]}, "MistralForCausalLM"),
        ({"model_type": "qwen3"}, "architectures"),
        ({"hidden_size": None}, "hidden_size"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"intermediate_size": "128"}, "intermediate_size"),
        ({"num_attention_heads": 3}, "num_attention_heads"),
        ({"head_dim": 15}, "head_dim"),
        ({"rms_norm_eps": -1.0}, "rms_norm_eps"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_bias": True}, "attention_bias"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 4.0}}, "low_freq_factor"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
        ({"router_gate_mode": "soft"}, "'soft', expected released or ste_hard"),
        ({"router_gate_mode": 1}, "unknown gate mode"),
        ({"architectures": [["x"]]}, "architectures]: got [['x']], expected a list of strings"),
        ({"architectures": 5}, "architectures]: got 5"),
        ({"model_type": []}, "model_type]: got []"),
        ({"layer_types": 5}, "layer_types]: got 5"),
        ({"layer_types": [1, "a"]}, "layer_types]: got [1, 'a']"),
        ({"rope_parameters": "x"}, "rope_parameters]: got 'x'"),
        ({"rope_scaling": {"rope_type": ["linear"]}}, "rope_type]: got ['linear']"),
        ({"rope_scaling": LLAMA3 | {"high_freq_factor": 1.0}}, "got 1.0, expected more than low_freq_factor 1.0"),
        ({"rope_theta": 10**400}, "rope_theta]: got 1000"),
        ({"rope_theta": float("nan")}, "rope_theta]: got nan"),
        ({"rope_theta": float("inf")}, "rope_theta]: got inf"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps]: got inf"),
        ({"num_hidden_layers": 10**8}, "got 100000000, expected a positive integer of at most 10000"),
        ({"hidden_size": 10**400}, "hidden_size]: got 1000"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings]: got 'no', expected true or false"),
        ({"routing_layers": "2"}, "routing_layers]: got '2'"),
        ({"routing_layers": [[2], True]}, "routing_layers]: got [[2], True]"),
    ],
)
def test_config_value(folder: Path, values: dict[str, object], words: str) -> None:
    message = refusal(edit_config(folder, **values))
    assert words in message
    assert "config.json" in message
    assert len(message) < 500 + len(str(folder))


@pytest.mark.parametrize(
    ("text", "words"),
    [("[" * 200_000, "nesting too deep"), ('{"a":' * 200_000, "nesting too deep"), ("1" * 5000, "file is not JSON")],
)
def test_json_that_python_cannot_hold(folder: Path, text: str, words: str) -> None:
    (folder / "config.json").write_text(text)
    assert words in refusal(folder)


def drop(name: str) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__delitem__(name)


def put(name: str, value: Tensor) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: value})


def poison(name: str, value: float) -> Callable[[Tensors], None]:
    def edit(tensors: Tensors) -> None:
        tensors[name].view(-1)[3] = value

    return edit


NORM, HEAD = "model.norm.weight", "lm_head.weight"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (drop(NORM), f"missing {NORM}, expected {NORM} [64]"),
        (put("model.extra", torch.zeros(2)), "surplus model.extra"),
        (put(HEAD, torch.zeros(127, 64)), f"misshaped {HEAD} [127, 64], expected {HEAD} [128, 64]"),
        (put(NORM, torch.zeros(64, dtype=torch.int8)), "torch.int8"),
        (poison(HEAD, float("nan")), f"{HEAD}]: got 1 of 8192 values are NaN or infinite"),
        (poison(NORM, float("inf")), f"{NORM}]: got 1 of 64 values"),
    ],
)
def test_model_tensors(folder: Path, edit: Callable[[Tensors], None], words: str) -> None:
    edit_tensors(folder / "model.safetensors", edit)
    assert words in refusal(folder)


def test_a_tied_head_of_other_values(folder: Path) -> None:
    assert "head is not tied" in refusal(edit_config(folder, tie_word_embeddings=True))


def test_many_misfits_are_counted(folder: Path) -> None:
    def keep_one(tensors: Tensors) -> None:
        for name in sorted(tensors)[1:]:
            del tensors[name]

    edit_tensors(folder / "model.safetensors", keep_one)
    # 9 tensors in each of 6 layers, the embedding, the last norm and the head, less the one kept and the four named
    assert f"and {6 * 9 + 3 - 1 - 4} more" in refusal(folder)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{}", "index names no shards"),
        ('{"weight_map": {"a": "../elsewhere.safetensors"}}', "shard lies elsewhere"),
        ('{"weight_map": {"a": "absent.safetensors"}}', "weights are missing"),
        ('{"weight_map": {"a": "model.safetensors"}}', "shard and index differ"),
    ],
)
def test_shard_index(folder: Path, index: str, words: str) -> None:
    (folder / "model.safetensors.index.json").write_text(index)
    assert words in refusal(folder)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (drop(ENC), f"missing {ENC}, expected {ENC} [4, 64]"),
        (
            put("model.layers.2.router.router_head.bias", torch.zeros(1)),
            "surplus model.layers.2.router.router_head.bias",
        ),
        (put("model.layers.2.mlp.up_proj.weight", torch.zeros(128, 64)), "surplus model.layers.2.mlp.up_proj.weight"),
        (put(ENC, torch.zeros(5, 64)), f"misshaped {ENC} [5, 64], expected {ENC} [4, 64]"),
        (put(ENC, torch.zeros(4)), f"misshaped {ENC} [4], expected {ENC} [4, 64]"),
        (put("model.layers.6.router.router_norm.weight", torch.ones(4)), "got layer 6, expected layers below 6"),
        (poison(ENC, float("nan")), ENC),
        (lambda tensors: tensors.clear(), "no router tensors"),
    ],
)
def test_delta_tensors(folder: Path, edit: Callable[[Tensors], None], words: str) -> None:
    message = refusal(folder, edit_tensors(folder / seeded.DELTA, edit))
    assert words in message
    assert seeded.DELTA in message


def test_delta_for_another_hidden_size(folder: Path) -> None:
    def narrow(tensors: Tensors) -> None:
        for name, tensor in tensors.items():
            cut = tuple(slice(0, 48 if size == 64 else size) for size in tensor.shape)
            tensors[name] = tensor[cut].contiguous()

    message = refusal(folder, edit_tensors(folder / seeded.DELTA, narrow))
    assert "another hidden size" in message
    assert "got 48, expected 64" in message


@pytest.mark.parametrize(("in_delta", "in_base"), [("released", "ste_hard"), ("ste_hard", "released")])
def test_gate_modes_that_differ(folder: Path, in_delta: str, in_base: str, tmp_path: Path) -> None:
    delta = tmp_path / "delta.safetensors"
    save_file(load_file(folder / seeded.DELTA), delta, {"router_gate_mode": in_delta})
    assert "gate modes differ" in refusal(edit_config(folder, router_gate_mode=in_base), delta)


def test_unknown_gate_mode_of_a_delta(folder: Path) -> None:
    edit_tensors(folder / seeded.DELTA, lambda tensors: None, router_gate_mode="soft")
    assert "'soft', expected released or ste_hard" in refusal(folder, folder / seeded.DELTA)


def test_routing_layers_that_differ_from_the_tensors(folder: Path) -> None:
    edit_config(folder, routing_layers=[2, 3])
    assert "[2, 3, 4], expected [2, 3]" in refusal(folder, folder / seeded.DELTA)


def test_two_routers(folder: Path, tmp_path: Path) -> None:
    delta = load_file(folder / seeded.DELTA)
    save_file(delta, tmp_path / "delta.safetensors")
    edit_tensors(folder / "model.safetensors", lambda tensors: tensors.update(delta))
    assert "two routers" in refusal(folder, tmp_path / "delta.safetensors")


@pytest.mark.parametrize("name", ["delta.bin", "delta"])
def test_delta_of_an_unknown_kind(folder: Path, name: str) -> None:
    assert f"{name}]" in refusal(folder, folder / name)


@pytest.mark.parametrize("name", ["absent.safetensors", "absent.pt"])
def test_delta_that_is_not_there(folder: Path, name: str) -> None:
    expected = f"{name}]: got no such file, expected an existing .safetensors or .pt file"
    assert expected in refusal(folder, folder / name)


def test_a_folder_for_a_delta(folder: Path) -> None:
    (folder / "delta.pt").mkdir()
    assert "delta.pt]: got a folder" in refusal(folder, folder / "delta.pt")


class Malicious:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_pickle_is_not_run(folder: Path, tmp_path: Path, legacy: bool) -> None:
    touched, delta = tmp_path / "touched", tmp_path / "delta.pt"
    if legacy:
        delta.write_bytes(pickle.dumps(Malicious(touched), protocol=2))
    else:
        torch.save({ENC: Malicious(touched)}, delta)
    message = refusal(folder, delta)
    assert "weights cannot be read" in message
    assert "expected tensors alone, by name" in message
    assert "weights_only" not in message
    assert legacy or "got objects other than tensors (getattr)" in message
    assert not touched.exists()


def test_a_pickled_module_is_named(folder: Path, tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "delta.pt")
    message = refusal(folder, tmp_path / "delta.pt")
    assert "got objects other than tensors (torch.nn.modules.linear.Linear), expected tensors alone" in message


@pytest.mark.parametrize(
    "content", [b"", b"text in place of a pickle", pickle.dumps({ENC: 1}, protocol=4), b"PK\x03\x04"]
)
@pytest.mark.filterwarnings("error")
def test_a_pt_file_of_something_else(folder: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "delta.pt").write_bytes(content)
    message = refusal(folder, tmp_path / "delta.pt")
    assert "delta.pt]: got" in message
    assert "weights_only" not in message


def unusual(kind: str) -> Tensor:
    whole = torch.ones(4, 64)
    if kind == "meta":
        return whole.to("meta")
    if kind == "qint8":
        return torch.quantize_per_tensor(whole, 1.0, 0, torch.qint8)
    return whole.to_sparse() if kind == "sparse_coo" else whole.to_sparse_csr()


@pytest.mark.parametrize("kind", ["meta", "qint8", "sparse_coo", "sparse_csr"])
def test_a_tensor_that_is_not_dense(folder: Path, tmp_path: Path, kind: str) -> None:
    with warnings.catch_warnings():
        # torch's own, of making such a tensor
        warnings.simplefilter("ignore")
        torch.save(load_file(folder / seeded.DELTA) | {ENC: unusual(kind)}, tmp_path / "delta.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = refusal(folder, tmp_path / "delta.pt")
    assert f"delta.pt: {ENC}]: got a" in message
    assert kind in message


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {}])
def test_pt_that_is_no_dict_of_router_tensors(folder: Path, tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "delta.pt")
    assert "delta.pt" in refusal(folder, tmp_path / "delta.pt")


def test_truncated_pt(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "delta.pt"
    torch.save(load_file(folder / seeded.DELTA), path)
    path.write_bytes(path.read_bytes()[:-500])
    assert "weights cannot be read" in refusal(folder, path)
